"""The two directions of `tftj convert`: which objects are converted, and how."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tftraining_operator.api import keys

from tftraining.cli.convert import from_tfjob, tfjob_api, to_tfjob
from tftraining.cli.convert.findings import Conversion


@dataclass(frozen=True, slots=True)
class Direction:
    """Which objects are converted, and how."""

    kind: str
    version: str
    """apiVersion of the objects."""
    plural: str
    """Their name in the paths of the API."""
    convert: Callable[[Any], Conversion]


def to_tftrainingjobs(checkpoint: str | None = None) -> Direction:
    """Return how TFJobs are converted; `checkpoint` is a claim or a URI for their evaluators."""
    convert = partial(from_tfjob.convert, checkpoint=checkpoint)
    return Direction(tfjob_api.KIND, tfjob_api.VERSION, tfjob_api.PLURAL, convert)


def to_tfjobs(image: str | None = None) -> Direction:
    """Return how TFTrainingJobs are converted; `image` is the trainer image."""
    return Direction(
        keys.KIND, keys.API_VERSION, keys.PLURAL, partial(to_tfjob.convert, image=image)
    )
