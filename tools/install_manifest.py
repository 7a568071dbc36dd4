"""Writes deploy/install.yaml, the chart with its default values in one file (`make manifests`).

For clusters without Helm: `kubectl apply --server-side -f deploy/install.yaml`, or as the base of a
kustomization.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import yaml

from tools.cluster.binaries import binary

CHART = Path("charts/tftraining-operator")
MANIFEST = Path("deploy/install.yaml")

_RELEASE, _NAMESPACE = "tftraining", "tftraining-system"
_HEADER = "# Generated from charts/tftraining-operator by `make manifests`; do not edit.\n"
_RESTRICTED = "pod-security.kubernetes.io/enforce: restricted"
_BEGIN = f"""---
apiVersion: v1
kind: Namespace
metadata:
  name: {_NAMESPACE}
  labels:
    {_RESTRICTED}
"""
_HELMS_OWN = ("app.kubernetes.io/managed-by", "helm.sh/chart")


def rendered(chart: Path = CHART) -> str:
    """Return the manifest: the namespace, then what the chart makes, but for its tests."""
    helm = str(binary("helm"))
    command = [helm, "template", _RELEASE, str(chart), "--namespace", _NAMESPACE, "--no-hooks"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    documents = [each for each in done.stdout.split("\n---\n") if yaml.safe_load(each)]
    return _HEADER + _BEGIN + "".join(f"---\n{_cleaned(each)}\n" for each in documents)


def _cleaned(document: str) -> str:
    """Return a document without the labels by which Helm knows what is its own."""
    lines = document.strip().removeprefix("---\n").splitlines()
    return "\n".join(line for line in lines if not line.strip().startswith(_HELMS_OWN))


def main() -> int:
    """Write the file, or compare it; return the exit code."""
    parser = argparse.ArgumentParser(description="Write deploy/install.yaml.")
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    text = rendered()
    if not check:
        MANIFEST.parent.mkdir(exist_ok=True)
        MANIFEST.write_text(text)
    elif not MANIFEST.exists() or MANIFEST.read_text() != text:
        sys.stderr.write(f"{MANIFEST} is not up to date; run `make manifests`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
