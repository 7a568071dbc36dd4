"""`python -m tftrainer.examples.placement`, as a job's chief, prints what came out, and where.

It ends with 1 if a distributed value differs from the local one, or stood elsewhere than asked.
"""

import time

from tftrainer.config.cluster import Cluster
from tftrainer.errors import TrainerError
from tftrainer.examples import chief
from tftrainer.runtime.progress import Phase
from tftrainer.runtime.supervisor import Run


def program(cluster: Cluster, run: Run) -> None:
    """Compute, print and judge; raises TrainerError if something is not as it has to be."""
    # Imported here: with TensorFlow it takes seconds, in which the chief would not yet answer.
    from tftrainer.examples.placement.comparison import compare, table  # noqa: PLC0415

    run.progress.update(phase=Phase.TRAINING, stepped_at=time.monotonic())
    rows = list(compare(cluster))
    print(*table(rows), sep="\n", flush=True)  # noqa: T201 -- what it is for
    if wrong := [row.name for row in rows if not row.is_right]:
        raise TrainerError(
            f"not the value that this process computes, or not on the device asked for: {wrong}."
        )
    run.progress.update(
        phase=Phase.DONE,
        step=len(rows),
        total_steps=len(rows),
        metrics={row.name: row.distributed for row in rows},
    )


chief.run(program)
