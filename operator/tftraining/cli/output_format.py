"""The values of -o; output.py says what they mean. Light: every command's options need it."""

from enum import StrEnum


class OutputFormat(StrEnum):
    """Form in which objects are printed."""

    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


class DocumentFormat(StrEnum):
    """Form in which values are printed."""

    JSON = "json"
    YAML = "yaml"
