"""Writes the dashboards into the chart; `--check` compares them."""

import argparse
import sys
from pathlib import Path

from tools.dashboards.grafana import rendered
from tools.dashboards.panels import DASHBOARDS

FOLDER = Path("charts/tftraining-operator/files/dashboards")


def main() -> int:
    """Write the files, or compare them; return the exit code."""
    parser = argparse.ArgumentParser(description="Write the chart's Grafana dashboards.")
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    FOLDER.mkdir(parents=True, exist_ok=True)
    stale = []
    for dashboard in DASHBOARDS:
        path, text = FOLDER / f"{dashboard.name}.json", rendered(dashboard)
        if check and (not path.exists() or path.read_text() != text):
            stale.append(path)
        elif not check:
            path.write_text(text)
    for path in stale:
        sys.stderr.write(f"{path} is not up to date; run `make manifests`\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
