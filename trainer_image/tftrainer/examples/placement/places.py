"""The names of the cluster's devices, as `tf.device` takes them and tensors give them. Pure."""

from dataclasses import dataclass
from typing import Self

from tftrainer.config.cluster import Cluster, Role


@dataclass(frozen=True, slots=True)
class Places:
    """The CPU of each task."""

    chief: str
    workers: tuple[str, ...]
    ps: tuple[str, ...]

    @classmethod
    def of(cls, cluster: Cluster) -> Self:
        """Name the devices; TensorFlow numbers the tasks of a role from 0 without gaps."""
        chief, workers, ps = (
            tuple(f"/job:{role}/replica:0/task:{i}/device:CPU:0" for i in range(count))
            for role, count in ((r, len(cluster.of(r))) for r in (Role.CHIEF, Role.WORKER, Role.PS))
        )
        return cls(chief=chief[0], workers=workers, ps=ps)
