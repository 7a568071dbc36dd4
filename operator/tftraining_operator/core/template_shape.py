"""What of a pod the API server's validation looks at: all but what differs from run to run.

The jobs of a search differ in their names and arguments. Once the API server has judged the pods of
one of them, it would say the same of the others; see reconcile.judgements.
"""

import json
from typing import Any

from tftraining_operator.api import keys

_Object = dict[str, Any]

_OURS = f"{keys.GROUP}/"
"""How the labels and annotations begin that are made of a job's name."""
_LISTS_OF_TEXT = ("command", "args")


def shape(pod: _Object) -> str:
    """Return a text that two pods share if the API server finds the same wrong with both."""
    metadata, spec = pod["metadata"], pod["spec"]
    found = {
        "namespace": metadata["namespace"],
        "labels": _theirs(metadata.get("labels")),
        "annotations": _theirs(metadata.get("annotations")),
        "spec": {key: value for key, value in spec.items() if key not in ("hostname", "subdomain")},
    }
    for field in ("containers", "initContainers"):
        if isinstance(given := spec.get(field), list):
            found["spec"][field] = [_container(each) for each in given]
    return json.dumps(found, sort_keys=True)


def _theirs(given: object) -> object:
    if not isinstance(given, dict):
        return given
    return {key: value for key, value in given.items() if not str(key).startswith(_OURS)}


def _container(given: object) -> object:
    if not isinstance(given, dict):
        return given
    found = dict(given)
    for field in _LISTS_OF_TEXT:
        if isinstance(texts := given.get(field), list):
            found[field] = [_any_text(each) for each in texts]
    if isinstance(variables := given.get("env"), list):
        found["env"] = [
            each | {"value": _any_text(each["value"])}
            if isinstance(each, dict) and "value" in each
            else each
            for each in variables
        ]
    return found


def _any_text(given: object) -> object:
    """Return the same for any text; what is none, validation refuses."""
    return "" if isinstance(given, str) else given
