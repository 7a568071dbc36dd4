"""The trainer reads and writes what tests/contract says."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tftrainer.config import cluster, environment
from tftrainer.config.cluster import Role, Task
from tftrainer.config.environment import Strategy
from tftrainer.errors import BadConfigurationError
from tftrainer.exit_codes import ExitCode
from tftrainer.runtime.progress import (
    Activity,
    BestCheckpoint,
    Cause,
    ExportedModel,
    Phase,
    SavedCheckpoint,
    Snapshot,
    Unreachable,
)
from tftrainer.runtime.throughput import WorkerRate

NOW = 5000.0
"""When the documents are made, on the monotonic clock."""

CONTRACT = Path(__file__).resolve().parents[2] / "contract"
CASES = [
    pytest.param(case, pod, id=f"{path.stem} {pod}")
    for path in sorted((CONTRACT / "tf_config").glob("*.json"))
    for case in [json.loads(path.read_text())]
    for pod in case["pods"]
]


def load(name: str) -> dict:
    return json.loads((CONTRACT / name).read_text())


def variables(case: dict, pod: str) -> dict[str, str]:
    return {
        "TF_CONFIG": json.dumps(case["pods"][pod]),
        "TFTRAINING_STRATEGY": case["given"]["strategy"],
        "TFTRAINING_WORKERS": str(case["given"]["worker"]),
    }


@pytest.mark.parametrize(("case", "pod"), CASES)
def test_every_pod_knows_its_task_and_its_own_address(case: dict, pod: str) -> None:
    told = environment.read(variables(case, pod))

    assert told.cluster is not None
    assert pod == f"{case['given']['job']}-{told.task}"
    assert told.cluster.own.address == _address(case, told.task)
    assert told.cluster.own.port == 2222
    assert told.strategy == case["given"]["strategy"]
    assert told.workers == case["given"]["worker"]


@pytest.mark.parametrize(("case", "pod"), [c for c in CASES if "chief" in c.id])
def test_the_chief_waits_for_every_worker_and_ps(case: dict, pod: str) -> None:
    told = environment.read(variables(case, pod))
    given = case["given"]

    assert told.cluster is not None
    excluded = [Task(Role.WORKER, index) for index in given.get("excluded", [])]
    wanted = [
        Task(role, index)
        for role, count in ((Role.WORKER, given["worker"]), (Role.PS, given["ps"]))
        for index in range(count)
    ]
    assert [(m.name, m.address) for m in told.cluster.peers] == [
        (str(task), _address(case, task)) for task in wanted if task not in excluded
    ]


@pytest.mark.parametrize(("case", "pod"), CASES)
def test_the_strategy_follows_from_the_cluster_where_none_is_named(case: dict, pod: str) -> None:
    known = variables(case, pod)
    del known["TFTRAINING_STRATEGY"]
    told = environment.read(known)

    if told.task.role is not Role.EVALUATOR:  # which knows nobody, and needs no strategy
        assert told.strategy == case["given"]["strategy"]


def test_a_server_that_is_told_only_itself_knows_its_task_and_strategy() -> None:
    own = "j-worker-7.j.ns.svc:2222"
    config = {"cluster": {"worker": {"7": own}}, "task": {"type": "worker", "index": 7}}
    told = environment.read({"TF_CONFIG": json.dumps(config)})

    assert told.cluster is not None
    assert (told.task, told.cluster.own.address) == (Task(Role.WORKER, 7), own)
    assert told.strategy is Strategy.PARAMETER_SERVER


def test_peers_are_named_after_their_pods_though_a_list_may_leave_some_out() -> None:
    def names(*addresses: str) -> list[str]:
        config = {
            "cluster": {"chief": ["j-chief-0.j.ns.svc:1"], "worker": addresses},
            "task": {"type": "chief", "index": 0},
        }
        return [member.name for member in cluster.parse(json.dumps(config)).peers]

    assert names("j-worker-0.j.ns.svc:1", "j-worker-2.j.ns.svc:1") == ["worker-0", "worker-2"]
    assert names("my-ps-3-worker-12.my-ps-3.ns.svc:1") == ["worker-12"]
    assert names("localhost:1", "10.0.0.7:2", "j-ps-3.j:1", "[fd00::1]:1") == [
        f"worker-{position}" for position in range(4)
    ]


def test_the_evaluator_is_never_among_those_that_the_chief_connects_to() -> None:
    text = json.dumps(
        {
            "cluster": {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"], "evaluator": ["d:1"]},
            "task": {"type": "chief", "index": 0},
        }
    )
    read = cluster.parse(text)

    assert read.addresses() == {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}
    assert Role.EVALUATOR not in [member.task.role for member in read.peers]


def test_every_variable_of_the_contract_is_read() -> None:
    names = {each["name"] for each in load("environment.json")["variables"]}
    told = environment.read(
        {
            "TF_CONFIG": "",
            "TFTRAINING_JOB": "mnist",
            "TFTRAINING_JOB_UID": "uid",
            "TFTRAINING_STRATEGY": "Mirrored",
            "TFTRAINING_ATTEMPT": "2",
            "TFTRAINING_WORKERS": "3",
            "TFTRAINING_CHECKPOINT_DIR": "/checkpoints",
            "TFTRAINING_CHECKPOINT_STEP": "1000",
            "TFTRAINING_RESUME_FROM": "/checkpoints/mnist-0",
            "TFTRAINING_PROGRESS_PORT": "8080",
        }
    )

    # For gRPC, and for the operator itself.
    others = {"GRPC_FAIL_FAST", "TF_GRPC_DEFAULT_OPTIONS", "TFTRAINING_CLUSTER_WORKERS"}
    assert names - others == {
        "TF_CONFIG",
        "TFTRAINING_JOB",
        "TFTRAINING_JOB_UID",
        "TFTRAINING_STRATEGY",
        "TFTRAINING_ATTEMPT",
        "TFTRAINING_WORKERS",
        "TFTRAINING_CHECKPOINT_DIR",
        "TFTRAINING_CHECKPOINT_STEP",
        "TFTRAINING_RESUME_FROM",
        "TFTRAINING_PROGRESS_PORT",
    }
    assert (told.job, told.job_uid, told.attempt, told.workers) == ("mnist", "uid", 2, 3)
    assert (told.checkpoint_dir, told.checkpoint_step) == ("/checkpoints", 1000)
    assert told.resume_from == "/checkpoints/mnist-0"
    assert told.progress_port == 8080
    assert told.strategy is Strategy.MIRRORED


def test_exit_codes_are_those_of_the_contract() -> None:
    wanted = {each["name"]: each["code"] for each in load("exit_codes.json")["codes"]}

    assert {code.name: int(code) for code in ExitCode} == wanted


def _snapshot(document: dict) -> Snapshot:
    saved, age = document["lastCheckpoint"], document["secondsSinceStep"]
    model, best = document["model"], document["best"]
    return Snapshot(
        role=Role(document["role"]),
        attempt=document["attempt"],
        phase=Phase(document["phase"]),
        unreachable=tuple(
            Unreachable(
                each["task"],
                None if each["cause"] == "NotAsked" else NOW - each["seconds"],
                Cause(each["cause"]),
                each["reason"],
                each["address"],
            )
            for each in document["unreachable"]
        ),
        step=document["step"],
        total_steps=document["totalSteps"],
        steps_per_second=document["stepsPerSecond"],
        examples_per_second=document["examplesPerSecond"],
        workers=tuple(
            WorkerRate(each["task"], each["examplesPerSecond"], each["inputWait"])
            for each in document["workers"]
        ),
        queue_depth=document["queueDepth"],
        stepped_at=None if age is None else (NOW - 15 if document["activity"] else NOW) - age,
        activity=document["activity"] and Activity(document["activity"]),
        active_since=NOW - 15 if document["activity"] else 0.0,
        resumed_step=document["resumedStep"],
        repeated_examples=document["repeatedExamples"],
        metrics=document["metrics"],
        last_checkpoint=saved
        and SavedCheckpoint(saved["step"], saved["path"], _time(saved["time"])),
        model=model and ExportedModel(model["step"], model["path"], tuple(model["formats"])),
        best=best
        and BestCheckpoint(
            best["step"], best["metric"], best["value"], best["path"], best["exportPath"]
        ),
        updated_at=_time(document["updatedAt"]),
    )


@pytest.mark.parametrize("name", load("progress.json"))
def test_progress_is_written_as_the_contract_has_it(name: str) -> None:
    document = load("progress.json")[name]

    assert list(_snapshot(document).document(NOW).items()) == list(document.items())


def _time(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def _address(case: dict, task: Task) -> str:
    given = case["given"]
    return f"{given['job']}-{task}.{given['job']}.{given['namespace']}.svc:2222"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("{", "not valid JSON", id="not JSON"),
        pytest.param("[]", "not a JSON object", id="a list"),
        pytest.param('{"task": {}}', '"cluster"', id="no cluster"),
        pytest.param(
            '{"cluster": {"master": ["a:1"]}, "task": {"type": "chief", "index": 0}}',
            "'master'",
            id="an unknown role",
        ),
        pytest.param(
            '{"cluster": {"chief": ["a:1"]}, "task": {"type": "worker", "index": 0}}',
            "worker-0 is not in the cluster",
            id="a task outside the cluster",
        ),
        pytest.param(
            '{"cluster": {"chief": ["a"]}, "task": {"type": "chief", "index": 0}}',
            "host:port",
            id="an address without a port",
        ),
        pytest.param(
            '{"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": true}}',
            "index",
            id="an index that is none",
        ),
        pytest.param(
            '{"cluster": {"chief": "a:1"}, "task": {"type": "chief", "index": 0}}',
            "list of addresses",
            id="a bare address",
        ),
    ],
)
def test_a_bad_tf_config_is_refused_with_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(BadConfigurationError) as refused:
        cluster.parse(text)

    assert said in str(refused.value)
    assert refused.value.code is ExitCode.BAD_CONFIGURATION


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param({"TFTRAINING_STRATEGY": "Horovod"}, "Horovod", id="an unknown strategy"),
        pytest.param({"TFTRAINING_ATTEMPT": "-1"}, "TFTRAINING_ATTEMPT", id="a bad number"),
        pytest.param(
            {"TFTRAINING_STRATEGY": "ParameterServer"}, "TF_CONFIG is not set", id="no cluster"
        ),
        pytest.param(
            {
                "TFTRAINING_STRATEGY": "ParameterServer",
                "TF_CONFIG": '{"cluster": {"chief": ["a:1"]}, '
                '"task": {"type": "chief", "index": 0}}',
            },
            "no worker and no ps",
            id="a chief without servers",
        ),
    ],
)
def test_a_bad_environment_is_refused_with_the_variable(given: dict, said: str) -> None:
    with pytest.raises(BadConfigurationError, match=said):
        environment.read(given)
