"""What some shapes need of a cluster: Kueue with a queue, and GPUs that a device plugin offers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from e2e import kueue
from e2e.devices import gpus
from e2e.scenarios.space import Space
from e2e.scenarios.tfjobs.shapes import GPUS, KUEUE, Shape
from tools.cluster import Cluster
from tools.cluster.binaries import binary

_QUEUE = "research"
_GPU = "nvidia.com/gpu"

Prepare = Callable[[Space, Shape], None]
"""Is called with the namespace of a shape, before the shape is made there."""


@contextmanager
def surroundings(cluster: Cluster, shapes: Sequence[Shape]) -> Iterator[Prepare]:
    """Have what these shapes need, for the time of the block. Raises NoNodeError."""
    needs = {shape.needs for shape in shapes}
    with ExitStack() as stack:
        queues = stack.enter_context(kueue.used(cluster)) if KUEUE in needs else None
        if GPUS in needs:
            stack.enter_context(gpus(cluster, binary("device-plugin", cluster.say), 2, _GPU))

        def prepare(space: Space, shape: Shape) -> None:
            if shape.needs == KUEUE and queues is not None:
                queues.queue(_QUEUE, space.name, cpu="4", memory="8Gi")

        yield prepare
