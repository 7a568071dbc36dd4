"""spec.checkpoint of a TFTrainingJob, from what the templates of a TFJob say of checkpoints.

A TFJob that was a TFTrainingJob before (to_tfjob.py) has it in its chief's template, as the
operator would have put it there. Otherwise only an evaluator requires it.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ruamel.yaml.comments import CommentedMap
from tftraining_operator.api.keys import Role
from tftraining_operator.api.types import Checkpoint
from tftraining_operator.core.environment import CHECKPOINT_DIR, RESUME_FROM
from tftraining_operator.core.podtemplate import CHECKPOINT_VOLUME

from tftraining.cli.convert.findings import Finding, Level, RefusedError
from tftraining.cli.convert.nodes import copied
from tftraining.cli.convert.replicas import Replica, Shape
from tftraining.cli.convert.templates import container_of

_Map = Mapping[str, Any]

_URI = re.compile(r"\b(?:gs|s3|az)://[^\s\"',]+")
_DEFAULT_PATH: str = Checkpoint.model_fields["path"].default
_OTHER_PATH = "/tftraining-checkpoints"


def checkpoint(
    shape: Shape, replicas: list[Replica], given: str | None, findings: list[Finding]
) -> CommentedMap | None:
    """Return spec.checkpoint, None if nothing asks for it. Raises RefusedError."""
    evaluator = next((each for each in replicas if each.role is Role.EVALUATOR), None)
    owner = shape.source.get(Role.CHIEF, Role.CHIEF)
    chief = next(each for each in replicas if each.role is owner)
    written = _written(chief) if given is None else None
    if evaluator is None and given is None:
        return written
    place, mounted = _named(given) or written, False
    if place is None and evaluator is not None:
        place, mounted = _found(chief, evaluator)
    if place is None:
        raise RefusedError(
            evaluator.path if evaluator else "spec",
            "an evaluator needs spec.checkpoint, and the templates name neither a claim that chief"
            " and evaluator mount nor an object store: name it with --checkpoint CLAIM or URI",
        )
    if evaluator is not None:
        text = (
            "it is outside of the training cluster, with a TF_CONFIG of its own: the chief does not"
            f" wait for it. spec.checkpoint is set ({_name(place)})"
        )
        findings.append(Finding(Level.DIFFERS, evaluator.path, text))
    if written is None and (
        mounted or _DEFAULT_PATH in _mount_paths([chief, *([evaluator] if evaluator else [])])
    ):
        place["path"] = _OTHER_PATH
    return place


def is_mounted_by_ps(replicas: list[Replica]) -> bool:
    """Tell whether to_tfjob.py wrote the checkpoint volume into the template of the ps."""
    return any(each.role is Role.PS and _volume(each) is not None for each in replicas)


def _written(chief: Replica) -> CommentedMap | None:
    """Return what to_tfjob.py wrote into the chief's template, None if it did not."""
    spec = (chief.raw.get("template") or {}).get("spec") or {}
    variables = container_of(spec, chief.path).get("env") or []
    values = {each.get("name"): each.get("value") for each in variables}
    directory, origin = values.get(CHECKPOINT_DIR), values.get(RESUME_FROM)
    if volume := _volume(chief):
        place = CommentedMap({k: copied(v) for k, v in volume.items() if k != "name"})
        if directory != _DEFAULT_PATH:
            place["path"] = directory
    elif directory and "://" in directory:
        place = CommentedMap(uri=directory)
    else:
        return None
    if origin:
        place["resumeFrom"] = origin
    return place


def _volume(replica: Replica) -> _Map | None:
    """Return the volume of a replica's template that to_tfjob.py wrote, None without one."""
    spec = (replica.raw.get("template") or {}).get("spec") or {}
    volumes: list[_Map] = spec.get("volumes") or []
    return next((each for each in volumes if each.get("name") == CHECKPOINT_VOLUME), None)


def _named(given: str | None) -> CommentedMap | None:
    if given is None:
        return None
    if "://" in given:
        return CommentedMap(uri=given)
    return CommentedMap(persistentVolumeClaim=CommentedMap(claimName=given))


def _found(chief: Replica, evaluator: Replica) -> tuple[CommentedMap | None, bool]:
    """Return where chief and evaluator both have checkpoints, and whether they mount it."""
    both = [claim for claim in _claims(chief) if claim in list(_claims(evaluator))]
    if both:
        return _named(both[0]), True
    uris = [uri for uri in _uris(chief) if uri in list(_uris(evaluator))]
    return (_named(uris[0].rstrip("/")), False) if uris else (None, False)


def _name(place: _Map) -> str:
    claim = place.get("persistentVolumeClaim")
    return f"claim {claim['claimName']}" if claim else str(place.get("uri"))


def _claims(replica: Replica) -> Iterator[str]:
    spec = (replica.raw.get("template") or {}).get("spec") or {}
    mounts = container_of(spec, replica.path).get("volumeMounts") or []
    mounted = {mount.get("name") for mount in mounts if not mount.get("readOnly")}
    mounted |= {mount.get("name") for mount in mounts if replica.role is Role.EVALUATOR}
    for volume in spec.get("volumes") or []:
        claim = volume.get("persistentVolumeClaim")
        if isinstance(claim, Mapping) and volume.get("name") in mounted:
            yield str(claim.get("claimName"))


def _uris(replica: Replica) -> Iterator[str]:
    spec = (replica.raw.get("template") or {}).get("spec") or {}
    container = container_of(spec, replica.path)
    texts = [*(container.get("command") or []), *(container.get("args") or [])]
    texts += [str(variable.get("value") or "") for variable in container.get("env") or []]
    for text in texts:
        yield from _URI.findall(str(text))


def _mount_paths(replicas: list[Replica]) -> set[str]:
    specs = [((each.raw.get("template") or {}).get("spec") or {}, each.path) for each in replicas]
    mounts = [container_of(spec, path).get("volumeMounts") or [] for spec, path in specs]
    return {str(mount.get("mountPath")).rstrip("/") for each in mounts for mount in each}
