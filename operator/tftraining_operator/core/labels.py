"""What names and values labels can have. Used by pod_metadata and peers."""

import re

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")

VALUE_FORM = (
    "the value of a label has at most 63 letters, digits, '-', '_' and '.', the first and the last"
    " a letter or digit"
)


def is_label_name(text: str) -> bool:
    """Tell whether a label, or an annotation, can have this name."""
    prefix, slash, name = text.rpartition("/")
    named = _NAME.fullmatch(name) is not None
    return named and (not slash or _PREFIX.fullmatch(prefix) is not None)


def is_label_value(text: str) -> bool:
    """Tell whether a label can have this value."""
    return not text or _NAME.fullmatch(text) is not None
