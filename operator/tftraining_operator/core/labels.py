"""What names and values labels can have. Used by pod_metadata and peers."""

import re

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PART = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_PREFIX = re.compile(rf"{_PART}([.]{_PART})*")
_LONGEST_PREFIX = 253

VALUE_FORM = (
    "the value of a label has at most 63 letters, digits, '-', '_' and '.', the first and the last"
    " a letter or digit"
)


def is_label_name(text: str) -> bool:
    """Tell whether a label, or an annotation, can have this name."""
    prefix, slash, name = text.rpartition("/")
    if _NAME.fullmatch(name) is None or len(prefix) > _LONGEST_PREFIX:
        return False
    return not slash or _PREFIX.fullmatch(prefix) is not None


def is_label_value(text: str) -> bool:
    """Tell whether a label can have this value."""
    return not text or _NAME.fullmatch(text) is not None
