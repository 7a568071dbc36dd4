"""Computes the graphs and the means twice, on the cluster and in this process, side by side."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.config.cluster import Cluster
from tftrainer.examples.placement import graph, mean
from tftrainer.examples.placement.places import Places

_EXAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Row:
    """One value that was computed in both ways."""

    name: str
    distributed: float
    local: float
    device: str
    """Where the tensor says that it was computed."""
    asked: str

    @property
    def is_right(self) -> bool:
        """Whether value (to the last bit) and device are as they have to be."""
        return self.distributed == self.local and self.device == self.asked


def connect(cluster: Cluster) -> Places:
    """Make this process a server as well, which knows the others' devices from now on."""
    tf.config.experimental_connect_to_cluster(
        tf.train.ClusterSpec(cluster.addresses()), job_name="chief", task_index=0, protocol="grpc"
    )
    return Places.of(cluster)


def compare(cluster: Cluster) -> Iterator[Row]:
    """Connect to the cluster and compute everything."""
    places = connect(cluster)
    yield from _nodes(graph.spread(places), graph.compute, places)
    yield from _nodes(graph.spread_constants(places), graph.constants, places)
    workers = len(places.workers)
    yield from _means("equal", mean.equal_sizes(_EXAMPLES, workers), places)
    yield from _means("unequal", mean.unequal_sizes(_EXAMPLES, workers), places)


def table(rows: Iterable[Row]) -> Iterator[str]:
    """Write the rows as lines of text."""
    line = "{:30} {:>12} {:>12}  {:5}  {}"
    yield line.format("value", "distributed", "local", "equal", "device of the tensor")
    for row in rows:
        values = f"{row.distributed:.7g}", f"{row.local:.7g}", str(row.distributed == row.local)
        yield line.format(row.name, *values, row.device)


def _nodes(
    devices: Mapping[str, str],
    compute: Callable[[Mapping[str, str]], dict[str, tf_types.Tensor]],
    places: Places,
) -> Iterator[Row]:
    local = compute(dict.fromkeys(devices, places.chief))
    for name, tensor in compute(devices).items():
        yield _row(name, tensor, local[name], devices[name])


def _means(kind: str, sizes: list[int], places: Places) -> Iterator[Row]:
    values = tf.range(1, _EXAMPLES + 1, dtype=tf.float64)
    split = mean.of_slices(values, sizes, places)
    parts = [tf.reduce_mean(part) for part in tf.split(values, sizes)]
    for index, (part, local, device) in enumerate(
        zip(split.parts, parts, places.workers, strict=True)
    ):
        yield _row(f"{kind} slice {index}, of {sizes[index]}", part, local, device)
    server = places.ps[0]
    yield _row(f"{kind} slices, mean of means", split.plain, tf.reduce_mean(parts), server)
    yield _row(f"{kind} slices, weighted mean", split.weighted, tf.reduce_mean(values), server)


def _row(name: str, tensor: tf_types.Tensor, local: tf_types.Tensor, asked: str) -> Row:
    return Row(name, float(tensor), float(local), tensor.device, asked)
