"""`python -m tftrainer.examples.model_parallel`, as a job's chief, prints losses, places, times.

It ends with 1 if the losses are not those of one process, or something stood elsewhere than asked.
"""

import statistics
import time

from tftrainer.config.cluster import Cluster
from tftrainer.errors import TrainerError
from tftrainer.examples import chief
from tftrainer.runtime.progress import Phase
from tftrainer.runtime.supervisor import Run

_STEPS = 300
_MOST_APART = 1e-5
"""Of the losses, as a share."""


def program(cluster: Cluster, run: Run) -> None:
    """Train twice, print and judge; raises TrainerError if something is not as it has to be."""
    # Imported here: with TensorFlow it takes seconds, in which the chief would not yet answer.
    from tftrainer.examples.exponential.reference import largest_difference  # noqa: PLC0415
    from tftrainer.examples.model_parallel import network  # noqa: PLC0415
    from tftrainer.examples.placement.comparison import connect  # noqa: PLC0415

    run.progress.update(phase=Phase.TRAINING, stepped_at=time.monotonic(), total_steps=2 * _STEPS)
    places = connect(cluster)
    layers = network.Layers(hidden=places.workers[0], output=places.workers[-1])
    curves: list[list[float]] = []
    medians: list[float] = []
    devices: dict[str, str] = {}
    for where in (network.Layers(places.chief, places.chief), layers):
        losses, seconds = [], []
        training = network.steps(where)
        for _ in range(_STEPS):
            began = time.monotonic()
            loss, devices = next(training)
            seconds.append(time.monotonic() - began)
            losses.append(loss)
            run.progress.update(step=_STEPS * len(curves) + len(losses))
        curves.append(losses)
        medians.append(statistics.median(seconds))
    apart, (alone, both) = largest_difference(curves[1], curves[0]), medians
    for name, device in devices.items():
        print(f"{name:14} {device}")  # noqa: T201 -- what it is for
    print(  # noqa: T201
        f"{_STEPS} losses down to {curves[1][-1]:.6g}: those of one process differ by {apart:.1e} "
        f"of their value at most\n"
        f"a step takes {1000 * both:.2f} ms, in one process {1000 * alone:.2f} ms: "
        f"{both / alone:.1f} times as long",
        flush=True,
    )
    asked = dict(zip(devices, (layers.hidden, layers.hidden, layers.output), strict=True))
    if devices != asked or apart > _MOST_APART:
        raise TrainerError(f"the losses differ, or not all is on the devices asked for: {asked}.")
    run.progress.update(
        phase=Phase.DONE,
        step=2 * _STEPS,
        metrics={"loss": curves[1][-1], "times as long": both / alone},
    )


chief.run(program)
