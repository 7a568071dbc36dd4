"""Labels and annotations that the operator gives to the pods of all jobs, beneath a job's own.

Set in the operator's settings; the reconciler asks once in each pass which of them a job has: all
its life those that it started with, as its trainer image. The status keeps the answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tftraining_operator.api import keys
from tftraining_operator.api.status import MAX_POD_METADATA, MAX_POD_METADATA_VALUE, StoredMetadata
from tftraining_operator.core.job import Job
from tftraining_operator.core.labels import VALUE_FORM, is_label_name, is_label_value


class InvalidMetadataError(Exception):
    """A label or annotation cannot be given to pods; the text names it and says why."""


@dataclass(frozen=True, slots=True)
class PodMetadata:
    """Labels and annotations of pods."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def pod_metadata(job: Job, default: PodMetadata) -> PodMetadata:
    """Return the labels and annotations that a job's pods get; `default` if it has not started."""
    if job.status.trainer_image is None:
        return default
    stored = job.status.pod_metadata
    return PodMetadata() if stored is None else PodMetadata(stored.labels, stored.annotations)


def stored(metadata: PodMetadata) -> StoredMetadata | None:
    """Return what the status keeps of it, None for nothing."""
    if not metadata.labels and not metadata.annotations:
        return None
    return StoredMetadata(labels=dict(metadata.labels), annotations=dict(metadata.annotations))


def check_labels(labels: Mapping[str, str]) -> None:
    """Raise InvalidMetadataError for what the API server or a job would refuse."""
    _check_names(labels)
    for name, value in labels.items():
        if not is_label_value(value):
            raise InvalidMetadataError(f"the value of {name} is {value!r}; {VALUE_FORM}")


def check_annotations(annotations: Mapping[str, str]) -> None:
    """Raise InvalidMetadataError for what the API server or a job would refuse."""
    _check_names(annotations)
    for name, value in annotations.items():
        if len(value) > MAX_POD_METADATA_VALUE:
            raise InvalidMetadataError(
                f"the value of {name} has {len(value)} characters; at most"
                f" {MAX_POD_METADATA_VALUE} are possible"
            )


def _check_names(given: Mapping[str, str]) -> None:
    if len(given) > MAX_POD_METADATA:
        raise InvalidMetadataError(f"there are {len(given)}; at most {MAX_POD_METADATA} can be set")
    for name in given:
        if not is_label_name(name):
            raise InvalidMetadataError(f"{name!r} is no name such as team or example.com/team")
        if name.rpartition("/")[0] == keys.GROUP or name == keys.LABEL_MANAGED_BY:
            raise InvalidMetadataError(
                f"{name} is set by the operator itself; remove it or choose another name"
            )
