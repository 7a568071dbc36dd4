"""What the jobs of CI build once is there the next time."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

WORKFLOW = Path(__file__).parents[3] / ".github/workflows/ci.yaml"


def test_no_two_jobs_with_other_programs_share_a_cache() -> None:
    """A cache is written once for its key, by the job that ends first, and never again."""
    job = yaml.safe_load(WORKFLOW.read_text())["jobs"]["make"]
    (key,) = (step["with"]["key"] for step in job["steps"] if "/cache@" in step.get("uses", ""))
    by = re.findall(r"matrix\.(\w+)", key)
    jobs = job["strategy"]["matrix"]["include"]
    # The Python that runs a job, and the TensorFlow, are no programs of the cache.
    built = [(each["target"], each.get("kubernetes")) for each in jobs]
    keys = [tuple(each.get(name) for name in by) for each in jobs]

    assert len(set(zip(built, keys, strict=True))) == len(set(keys))
