"""Writes YAML in which every parser finds the same strings.

kubectl's parser knows more numbers than PyYAML, YAML 1.1 more than 1.2, and `y` and `on` are true
to some. What one of them would read as something else than text is quoted. Used by all that prints
YAML: `tftj submit --dry-run`, `-o yaml`, and `convert`, which has a writer of its own.
"""

import re
from collections.abc import Iterable

import yaml

_WORDS = frozenset(
    {"y", "yes", "on", "true", "n", "no", "off", "false", "null", "~", "=", "<<", ""}
)
_NUMBER_OR_TIME = re.compile(
    r"""
    # Of any base, with an exponent, of base 60, and times; all have a digit, and one dot at most.
    (?=.*[0-9]) (?!.*\..*\.) [-+.0-9] [-+0-9a-f_.:otxpz ]*
    | [-+]? \. (inf|nan)
    """,
    re.VERBOSE | re.IGNORECASE,
)


def is_ambiguous(text: str) -> bool:
    """Tell whether a parser may find something else than this text if it is not quoted."""
    return text.lower() in _WORDS or _NUMBER_OR_TIME.fullmatch(text) is not None


def dumped(documents: Iterable[object]) -> str:
    """Return documents as a file that can be applied."""
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines, such as code, as it is read best."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else "'" if is_ambiguous(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
