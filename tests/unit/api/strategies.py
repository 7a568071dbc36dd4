"""Specs for hypothesis: of the right types, damaged, and changed."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from tftraining_operator.api.disruption import DisruptionBudget
from tftraining_operator.api.keys import REJECTED_STATES
from tftraining_operator.api.network import NetworkPolicy
from tftraining_operator.api.rules import problems
from tftraining_operator.api.scheduling import Gang
from tftraining_operator.api.types import CleanPodPolicy, RestartPolicy, Strategy, parse_spec

from tests.unit.api.cases import CLAIM, MIRRORED, TEMPLATE, a_spec

Draw = Any
JSON = Any

_words = st.text(alphabet="abcdefghij-_ .é\U0001f9e0", max_size=12)
_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**33), 2**33),
    st.sampled_from([0.5, 2.0, -1.0, 1e20]),
    _words,
)
_json = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_words, inner, max_size=2),
    max_leaves=5,
)
_replicas = st.integers(0, 3)
_seconds = st.integers(1, 2**31 - 1)


def _own(value: JSON) -> JSON:
    """Copy, so that damage at one place is no damage at another that shared the value."""
    return json.loads(json.dumps(value))


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any of the fields; null stands for any of them too, as the server allows it."""
    return st.fixed_dictionaries({}, optional={n: s | st.none() for n, s in fields.items()})


_containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["tensorflow", "tensorflow", "sidecar", "c" * 63])},
        optional={
            "image": _words | st.none(),
            "env": st.lists(st.fixed_dictionaries({"name": _words}, optional={"value": _json})),
            "resources": _json,
            "imagePullPolicy": _json,
        },
    ),
    max_size=3,
    unique_by=lambda container: str(container["name"]),
)
_templates = _some(
    metadata=_some(
        labels=st.dictionaries(_words, _words | st.none(), max_size=2),
        annotations=st.dictionaries(_words, _words, max_size=2),
    ),
    spec=_some(containers=_containers, nodeSelector=_json),
) | st.just(TEMPLATE)


def _role(**more: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return _some(
        replicas=_replicas,
        template=_templates,
        restartPolicy=st.sampled_from([*RestartPolicy]).map(str),
        **more,
    )


_checkpoints = _some(
    persistentVolumeClaim=st.just(CLAIM["persistentVolumeClaim"]),
    uri=st.sampled_from(["gs://bucket/mnist", "s3://b/c", "foo://x", "gs://b c", "hdfs:///é"]),
    emptyDir=st.just({}),
    path=st.sampled_from(["/checkpoints", "/é\U0001f9e0"]),
    resumeFrom=st.sampled_from(["/checkpoints/old", "gs://bucket/old/ckpt-7", "/é"]),
)
_run_policies = _some(
    suspend=st.booleans(),
    backoffLimit=st.integers(0, 1000) | st.just(3.0),
    activeDeadlineSeconds=_seconds,
    startupDeadlineSeconds=_seconds,
    stallTimeoutSeconds=_seconds,
    evaluatorGraceSeconds=st.just(0) | _seconds,
    ttlSecondsAfterFinished=st.just(0) | _seconds,
    cleanPodPolicy=st.sampled_from([*CleanPodPolicy]).map(str),
    managedBy=st.sampled_from(["tftraining.dev/operator", "example.com/other", "a.b/", "other"]),
)

_schedulings = _some(
    gang=st.sampled_from([*Gang]).map(str),
    queue=st.sampled_from(["research", "q" * 253]),
    priorityClassName=st.just("high"),
    topology=_some(pack=st.just("example.com/rack"), spread=st.sampled_from(["zone", "a.b/c_d.e"])),
)

_networks = _some(policy=st.sampled_from([*NetworkPolicy]).map(str))

_disruptions = _some(budget=st.sampled_from([*DisruptionBudget]).map(str))


def specs() -> st.SearchStrategy[dict[str, Any]]:
    """Specs that the schema accepts and that rules may refuse."""
    return _some(
        strategy=st.sampled_from([*Strategy]).map(str),
        template=st.just(TEMPLATE) | _templates,
        chief=_role(),
        worker=_role(),
        ps=_role(mountCheckpoint=st.booleans()),
        evaluator=_role(),
        checkpoint=_checkpoints,
        scheduling=_schedulings,
        network=_networks,
        disruption=_disruptions,
        runPolicy=_run_policies,
        managedBy=st.sampled_from(["kueue.x-k8s.io/multikueue", "a.b/", "other"]),
    )


def _full() -> dict[str, Any]:
    """A valid spec that says something about everything."""
    return a_spec(
        template={"metadata": {"labels": {"team": "vision"}}, **TEMPLATE},
        chief={"replicas": 1, "template": TEMPLATE, "restartPolicy": "OnFailure"},
        worker={"replicas": 2, "template": TEMPLATE, "restartPolicy": "Never"},
        evaluator={"replicas": 1},
        checkpoint=CLAIM | {"path": "/data", "resumeFrom": "/data/old"},
        scheduling={
            "gang": "Volcano",
            "queue": "research",
            "priorityClassName": "high",
            "topology": {"pack": "topology.kubernetes.io/zone"},
        },
        runPolicy={
            "suspend": False,
            "backoffLimit": 3,
            "activeDeadlineSeconds": 60,
            "startupDeadlineSeconds": 60,
            "stallTimeoutSeconds": 60,
            "evaluatorGraceSeconds": 60,
            "ttlSecondsAfterFinished": 60,
            "cleanPodPolicy": "All",
            "managedBy": "tftraining.dev/operator",
        },
    )


@st.composite
def broken_specs(draw: Draw) -> JSON:
    """A good spec with one to three pieces of damage: wrong type or range, typo, null, missing."""
    root = {"spec": _own(draw(st.just(_full()) | st.just(MIRRORED) | specs()))}
    _damage_some(draw, root)
    return root.get("spec")


@st.composite
def broken(draw: Draw, objects: list[JSON]) -> JSON:
    """One of some objects with one to three pieces of damage."""
    root = _own(draw(st.sampled_from(objects)))
    _damage_some(draw, root)
    return root


def _damage_some(draw: Draw, root: Any) -> None:
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(root))
        if not places:
            break
        holder, key = draw(st.sampled_from(places))
        _damage(draw, holder, key)


def _places(node: Any) -> Any:
    """Every (holder, key) below a node."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node)
    for key, child in list(pairs):
        yield node, key
        if isinstance(child, dict | list):
            yield from _places(child)


def _damage(draw: Draw, holder: Any, key: Any) -> None:
    kind = draw(st.sampled_from(["other", "number", "null", "quoted", "typo", "gone", "twice"]))
    value = holder[key]
    if kind == "other":
        holder[key] = draw(_json)
    elif kind == "number":
        holder[key] = draw(st.sampled_from([-1, 0, 1, 2, 1001, 2**31, 1.5, 2.0]))
    elif kind == "null":
        holder[key] = None
    elif kind == "quoted":
        holder[key] = str(value).lower()
    elif isinstance(holder, list):
        holder[key:] = [] if kind == "gone" else [value, _own(value)]
    elif kind == "gone":
        del holder[key]
    else:
        holder[f"{key}s"] = _own(value) if kind == "twice" else holder.pop(key)


def _is_valid(spec: Any) -> bool:
    return not problems("mnist", parse_spec(spec))


_CHANGED: dict[str, st.SearchStrategy[Any]] = {
    "strategy": st.sampled_from([*Strategy]).map(str),
    "template": _templates,
    "chief": _role(),
    "worker": _role(),
    "ps": _role(mountCheckpoint=st.booleans()),
    "evaluator": _role(),
    "checkpoint": _checkpoints,
    "scheduling": _schedulings,
    "network": _networks,
    "disruption": _disruptions,
    "runPolicy": _run_policies,
}


def states() -> st.SearchStrategy[str]:
    """What status.state may be; empty for a job without a status."""
    return st.sampled_from(["", "Running", "Suspended", *REJECTED_STATES])


@st.composite
def changed_specs(draw: Draw) -> tuple[JSON, JSON]:
    """A valid spec, and the same with up to two fields set anew, removed or damaged."""
    old = draw(st.sampled_from([a_spec(), _full(), MIRRORED]) | specs().filter(_is_valid))
    old = _own(old)
    if draw(st.booleans()):
        old["runPolicy"] = (old.get("runPolicy") or {}) | {"suspend": draw(st.booleans())}
    new = _own(old)
    for _ in range(draw(st.integers(0, 2))):
        name = draw(st.sampled_from(sorted(_CHANGED)))
        if draw(st.integers(0, 4)) == 0:
            new.pop(name, None)
        else:
            new[name] = _own(draw(_CHANGED[name]))
    if draw(st.integers(0, 3)) == 0:
        holder, key = draw(st.sampled_from(list(_places(new))))
        _damage(draw, holder, key)
    return old, new
