"""Writes the metrics of a training into docs/guide/monitoring.md, as the trainer serves them.

The trainer says them in a process of its own (trainer_image/list_metrics.py); `make manifests`.
tests/unit/tools/test_metrics_reference.py fails where the page is outdated.
"""

import subprocess
import sys
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tools.metrics_reference import labels_of, table_of
from tools.pages import filled

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/guide/monitoring.md"

_SECTION = "training metrics"
_PROGRAM = ROOT / "trainer_image/list_metrics.py"


def rendered() -> str:
    """Return the page with the table in its place."""
    command = [sys.executable, str(_PROGRAM)]  # whose folder is where it finds the trainer
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    families = text_string_to_metric_families(said)
    return filled(PAGE, _SECTION, table_of((each, labels_of(each)) for each in families))


def main() -> None:
    """Write the page."""
    PAGE.write_text(rendered())


if __name__ == "__main__":
    main()
