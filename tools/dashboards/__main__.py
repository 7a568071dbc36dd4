"""Writes the dashboards into the chart; `--check` compares them."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from tools.dashboards.grafana import rendered
from tools.dashboards.panels import DASHBOARDS

FOLDER = Path("charts/tftraining-operator/files/dashboards")


def _write(texts: Mapping[Path, str]) -> None:
    # The chart makes a ConfigMap of every file.
    for former in set(FOLDER.glob("*.json")) - texts.keys():
        former.unlink()
    for path, text in texts.items():
        path.write_text(text)


def main() -> int:
    """Write the files, or compare them; return the exit code."""
    parser = argparse.ArgumentParser(description="Write the chart's Grafana dashboards.")
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    FOLDER.mkdir(parents=True, exist_ok=True)
    texts = {FOLDER / f"{each.name}.json": rendered(each) for each in DASHBOARDS}
    present = {path: path.read_text() for path in FOLDER.glob("*.json")}
    stale = sorted(path for path in texts | present if texts.get(path) != present.get(path))
    if not check:
        _write(texts)
        return 0
    for path in stale:
        sys.stderr.write(f"{path} is not up to date; run `make manifests`\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
