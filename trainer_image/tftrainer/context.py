"""The argument `context` of a user's dataset(), model() and callbacks(); made by Job. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Context:
    """Settings of this run.

    `batch_size` is what to batch with: the examples of one step of one input pipeline. Under
    Mirrored and MultiWorkerMirrored that is the batch of all replicas, which TensorFlow splits.

    `seed` is None under ParameterServer, where one dataset graph runs on every worker: with a
    fixed seed all workers would read the same examples in the same order. In synchronous mode they
    have to, for they share the batches out; there it is never None.

    `input_pipelines` and `input_pipeline` are for datasets that switch TensorFlow's automatic
    sharding off and shard themselves; no other dataset needs them.
    """

    batch_size: int = 64
    seed: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    input_pipelines: int = 1
    input_pipeline: int = 0
