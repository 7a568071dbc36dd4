"""Wraps runc and removes CAP_SYS_RESOURCE from every container that requests it.

Engines grant a privileged container every capability that they know. On a machine without
CAP_SYS_RESOURCE runc would refuse the container. The engine runs a copy of this file for every
create and exec, so it imports only little of the standard library.

Usage: oci_runtime.py RUNC ARGUMENTS...
"""

import json
import os
import sys

MISSING = "CAP_SYS_RESOURCE"

_WITH_SPEC = {"create", "run"}


def spec_file(arguments: list[str]) -> str | None:
    """Return the file, named in runc's arguments, that lists the process's capabilities."""
    if _WITH_SPEC.intersection(arguments):
        return os.path.join(_value(arguments, "--bundle", "-b") or ".", "config.json")  # noqa: PTH118
    if "exec" in arguments:
        return _value(arguments, "--process", "-p")
    return None


def without_missing(spec: dict[str, object]) -> dict[str, object]:
    """Return a container's or a process's spec without the capability."""
    inner = spec.get("process")
    if isinstance(inner, dict):
        return {**spec, "process": without_missing(inner)}
    capabilities = spec.get("capabilities")
    if not isinstance(capabilities, dict):
        return spec
    fewer = {
        kind: [name for name in names if name != MISSING] for kind, names in capabilities.items()
    }
    return {**spec, "capabilities": fewer}


def _value(arguments: list[str], *options: str) -> str | None:
    for position, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name in options:
            return value if equals else arguments[position + 1]
    return None


def main(runc: str, arguments: list[str]) -> None:
    """Rewrite the spec, then replace this process by runc."""
    path = spec_file(arguments)
    if path is not None:
        with open(path) as file:  # noqa: PTH123 (pathlib costs a third of the start)
            spec = json.load(file)
        with open(path, "w") as file:  # noqa: PTH123
            json.dump(without_missing(spec), file)
    os.execv(runc, [runc, *arguments])  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
