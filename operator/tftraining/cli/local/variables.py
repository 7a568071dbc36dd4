"""Computes the environment of a container as the kubelet does. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tftraining.errors import InputError
from tftraining.manifest import Files, Manifest

_Object = dict[str, Any]

_REFERENCE = re.compile(r"\$(\$|\(([^)]*)\))")
_FIELD = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace $(NAME) by a variable, as Kubernetes does; $$ is a $, an unknown name stays."""

    def replace(found: re.Match[str]) -> str:
        if found[1] == "$":
            return "$"
        return variables.get(found[2], found[0])

    return _REFERENCE.sub(replace, text)


def environment(
    container: _Object, pod: _Object, manifest: Manifest, overrides: Mapping[str, str]
) -> dict[str, str]:
    """Return a container's variables; `overrides` take precedence. Raises InputError.

    References are looked up in the pod and in the ConfigMaps and Secrets of the job's own file.
    """
    found: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        found |= _all_of(source, manifest)
    # Where the container sets them, so that what it sets afterwards may refer to them.
    found |= {name: value for name, value in overrides.items() if name in found}
    for entry in container.get("env") or []:
        name = entry["name"]
        if name in overrides:
            found[name] = overrides[name]
            continue
        if entry.get("valueFrom"):
            value = _referenced(name, entry["valueFrom"], pod, manifest)
        else:
            value = expand(_text(entry.get("value"), f"env {name}"), found)
        if value is not None:
            found[name] = value
    return {**found, **overrides}


def _all_of(source: _Object, manifest: Manifest) -> dict[str, str]:
    prefix = source.get("prefix") or ""
    for field, kind, known in _stores(manifest):
        reference = source.get(f"{field}Ref")
        if reference:
            files = known.get(reference.get("name"))
            if files is None and not reference.get("optional"):
                raise InputError(
                    f"envFrom: {kind} {reference.get('name')} is not in the file: add it to the"
                    " file, or set its variables with --env NAME=VALUE and remove envFrom"
                )
            return {prefix + key: _decoded(key, value) for key, value in (files or {}).items()}
    raise InputError("envFrom: needs a configMapRef or a secretRef")


def _referenced(name: str, source: _Object, pod: _Object, manifest: Manifest) -> str | None:
    """Return the value that valueFrom refers to, None if it is optional and absent."""
    if field := source.get("fieldRef"):
        value = _field(str(field.get("fieldPath")), pod)
        if value is not None:
            return value
    for kind_field, kind, known in _stores(manifest):
        reference = source.get(f"{kind_field}KeyRef")
        if not reference:
            continue
        key = str(reference.get("key"))
        value_bytes = known.get(reference.get("name"), {}).get(key)
        if value_bytes is not None:
            return _decoded(key, value_bytes)
        if reference.get("optional"):
            return None
        raise InputError(
            f"env {name}: key {key} of {kind} {reference.get('name')} is not in the file: set it"
            f" with --env {name}=VALUE, or add the {kind} to the file"
        )
    what = ", ".join(source)
    raise InputError(
        f"env {name}: {what} is not available on this computer: set it with --env {name}=VALUE"
    )


def _field(path: str, pod: _Object) -> str | None:
    metadata, spec = pod["metadata"], pod["spec"]
    plain = {f"metadata.{key}": metadata.get(key) for key in ("name", "namespace", "uid")}
    plain |= {
        "spec.nodeName": "localhost",
        "status.podIP": "127.0.0.1",
        "status.hostIP": "127.0.0.1",
    }
    plain["spec.serviceAccountName"] = spec.get("serviceAccountName") or "default"
    if found := _FIELD.fullmatch(path):
        return str((metadata.get(found[1]) or {}).get(found[2], ""))
    return plain.get(path)


def _stores(manifest: Manifest) -> Iterator[tuple[str, str, Mapping[str, Files]]]:
    yield "configMap", "ConfigMap", manifest.config_maps
    yield "secret", "Secret", manifest.secrets


def _decoded(key: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"env: the value of key {key} is not text") from error


def _text(value: object, where: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise InputError(f'{where}: must be a string: write "{value}" in quotes')
