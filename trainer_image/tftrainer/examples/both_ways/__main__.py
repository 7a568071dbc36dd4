"""`python -m tftrainer.examples.both_ways`, as a job's chief, prints the sums of each way.

It ends with 1 if one of them cannot be.
"""

import time

from tftrainer.config.cluster import Cluster
from tftrainer.errors import TrainerError
from tftrainer.examples import chief
from tftrainer.runtime.progress import Phase
from tftrainer.runtime.supervisor import Run


def program(cluster: Cluster, run: Run) -> None:
    """Add, print and judge; raises TrainerError if a sum is wrong."""
    # Imported here: with TensorFlow it takes seconds, in which the chief would not yet answer.
    from tftrainer.examples.both_ways import sums  # noqa: PLC0415

    run.progress.update(phase=Phase.TRAINING, stepped_at=time.monotonic())
    found = [sums.alone(), *sums.distributed(cluster)]
    for each in found:
        possible = " or ".join(str(total) for total in sorted(each.possible))
        print(f"{each.way:45} {each.total:5}   possible: {possible}", flush=True)  # noqa: T201
    if wrong := [each.way for each in found if each.total not in each.possible]:
        raise TrainerError(f"the sum of 1 to 5 is wrong: {wrong}.")
    run.progress.update(
        phase=Phase.DONE,
        step=len(found),
        total_steps=len(found),
        metrics={each.way: float(each.total) for each in found},
    )


chief.run(program)
