"""The argument `context` of a user's dataset(), model() and callbacks(); made by Job. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Context:
    """Settings of this run.

    `batch_size` is what to batch with: the examples of one step of one input pipeline. Under
    Mirrored and MultiWorkerMirrored that is the batch of all replicas, which TensorFlow splits.

    `seed` is the same in every process that trains, and after every restart: --seed, or else drawn
    once and kept in the checkpoints. Shuffling with it, or with no seed, gives each pass over the
    data an order of its own, the same for all workers. The evaluator knows --seed alone.

    `input_pipelines` and `input_pipeline` are for datasets that switch TensorFlow's automatic
    sharding off and shard themselves; no other dataset needs them.
    """

    batch_size: int = 64
    seed: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    input_pipelines: int = 1
    input_pipeline: int = 0
