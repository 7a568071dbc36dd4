"""The version of what is installed."""

from importlib.metadata import PackageNotFoundError, version


def own_version() -> str | None:
    """Return the version of this package, None if it runs from source."""
    try:
        return version("tftraining")
    except PackageNotFoundError:
        return None
