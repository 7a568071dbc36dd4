"""Writes what a real API server lists as the operator's rights into docs/guide/security.md.

Run by `make manifests`; test_rights compares the page.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import yaml

from tests.apiserver import PROGRAMS, ApiServer, running
from tests.conftest import ROOT
from tools.cluster.binaries import binary
from tools.pages import filled

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ROOT / "docs/guide/security.md"
CHART = ROOT / "charts/tftraining-operator"
NAMESPACE = "tftraining-system"
ACCOUNT = "tftraining-operator"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"

_COMMAND = ("auth", "can-i", "--list", "-n", NAMESPACE, f"--as={USER}")


def rendered(helm: Path, *options: str) -> list[dict[str, Any]]:
    """Return the objects that the chart makes with these options."""
    command = [helm, "template", "tftraining", CHART, "-n", NAMESPACE, *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def install_rights(server: ApiServer, helm: Path, *options: str) -> list[dict[str, Any]]:
    """Make the operator's ServiceAccount and roles, as the chart does; return them."""
    shown = ("rbac", "serviceaccount")
    made = rendered(helm, *options, *(f"--show-only=templates/{name}.yaml" for name in shown))
    server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    server.apply(*made)
    return made


def page(server: ApiServer) -> str:
    """Return the page with what kubectl lists on a server that has the operator's roles."""
    listed = server.kubectl(*_COMMAND).splitlines()
    lines = [f"$ kubectl {' '.join(_COMMAND)}", *(line.rstrip() for line in listed)]
    return filled(PAGE, "can-i", "\n".join(("```", *lines, "```")))


def main() -> int:
    """Write the page; return the exit code."""
    with running({name: binary(name) for name in PROGRAMS}) as server:
        install_rights(server, binary("helm"))
        PAGE.write_text(page(server))
    return 0


if __name__ == "__main__":
    sys.exit(main())
