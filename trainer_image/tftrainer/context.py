"""The argument `context` of a user's dataset(), model() and callbacks(); made by Job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tftrainer import tf_types
from tftrainer.errors import BadConfigurationError


@dataclass(frozen=True, slots=True)
class Context:
    """Settings of this run.

    `batch_size` is what to batch with: the examples of one step of one input pipeline. Under
    Mirrored and MultiWorkerMirrored that is the batch of all replicas, which TensorFlow splits, and
    on a ParameterServer worker with several GPUs that of all its GPUs, which the trainer splits.

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

    def files(self, pattern: str | Sequence[str], *, shuffle: bool = True) -> tf_types.Dataset:
        """Return a dataset of the names of all files that match a pattern, or one of several.

        Names are listed in their order, so that all workers and restarts agree, and then shuffled
        in each pass over the data, also alike for all; not without `shuffle`.

        Raises BadConfigurationError if no file matches.
        """
        import tensorflow as tf  # noqa: PLC0415 -- who makes a Context does not need it

        patterns = [pattern] if isinstance(pattern, str) else list(pattern)
        names = sorted({name for each in patterns for name in tf.io.gfile.glob(each)})
        if not names:
            wanted = " or ".join(map(repr, patterns)) or "an empty list"
            raise BadConfigurationError(
                f"context.files: no file matches {wanted}. Correct the pattern, or mount the data "
                "at this path: in the chief, which lists the files, and in the workers, which read "
                "them."
            )
        data = tf.data.Dataset.from_tensor_slices(names)
        return data.shuffle(len(names)) if shuffle else data
