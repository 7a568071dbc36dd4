"""Writes the operator's rights into docs/guide/security.md, from the chart (`make manifests`)."""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tools.cluster.binaries import binary
from tools.pages import filled, table

PAGE = Path("docs/guide/security.md")

_CHART = "charts/tftraining-operator"
_PURPOSES = {
    "tftrainingjobs": "follow jobs; delete them after `ttlSecondsAfterFinished`",
    "tftrainingjobs/status": "report",
    "tftrainingjobs/finalizers": "own pods where OwnerReferencesPermissionEnforcement is enabled",
    "pods": "create, follow, replace and delete the pods of jobs",
    "services": "the headless Service of each job",
    "networkpolicies": "the NetworkPolicy of each job",
    "poddisruptionbudgets": "the PodDisruptionBudget of each job that has one",
    "events": "tell what happened",
    "podgroups": "gangs; one such row for each scheduler that is enabled in `scheduling`",
    "leases": "say which release works on the jobs of a namespace, and in the operator's own who"
    " leads; `get` and `update` of these leases only",
}


def rendered() -> str:
    """Return the page with the table of rights in its place."""
    head = ("API group", "resource", "verbs", "namespaces", "for")
    return filled(PAGE, "rights", table(head, _rows(), others="---"))


def _rows() -> Iterator[tuple[str, ...]]:
    found: dict[tuple[str, str, str], list[str]] = {}
    for role in _roles():
        where = "its own" if role["kind"] == "Role" else "all, or `watchNamespaces`"
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    found.setdefault((group, resource, where), []).extend(rule["verbs"])
    for (group, resource, where), verbs in found.items():
        yield group or "core", f"`{resource}`", ", ".join(verbs), where, _PURPOSES[resource]


def _roles() -> list[dict[str, Any]]:
    shown = "--show-only=templates/rbac.yaml"
    command = [str(binary("helm")), "template", "tftraining", _CHART, shown]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [each for each in yaml.safe_load_all(done.stdout) if each and "rules" in each]


def main() -> int:
    """Write the page, or compare it; return the exit code."""
    parser = argparse.ArgumentParser(description="Write the operator's rights into the guide.")
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    text = rendered()
    if not check:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        sys.stderr.write(f"{PAGE} is not up to date; run `make manifests`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
