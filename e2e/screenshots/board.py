"""A picture of the TensorBoard that `tftj tensorboard` shows."""

import time
import urllib.error
import urllib.request
from pathlib import Path

from e2e.install import ROOT
from e2e.scenarios.board import board
from e2e.scenarios.space import Space
from tools.browser import Page
from tools.waiting import eventually

_PICTURE = ROOT / "docs/guide/pictures/tensorboard.png"
_SETTLED_SECONDS = 5.0
"""How long its charts are drawn when they are there."""
_CHARTS = "document.querySelector('tb-webapp')?.innerText.includes('loss')"


def picture(tab: Page, space: Space, job: str) -> Path:
    """Take the curves of a job; return the file."""
    with board(space, job) as address:
        eventually(lambda: _answers(address), "TensorBoard answers", 180)
        tab.look(1280, height=900)
        # Lines drawn by WebGL are in no picture of a headless browser.
        tab.open(f"{address}/?forceSVG=true#timeseries")
        tab.wait_for(_CHARTS, 60)
        time.sleep(_SETTLED_SECONDS)
        tab.picture(_PICTURE, most=900)
    return _PICTURE


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=10):  # noqa: S310 - our own
            return True
    except (urllib.error.URLError, OSError):
        return False
