"""The classic programs, with real processes on loopback: their numbers, and their places."""

import csv
import json
import os
import re
import statistics
import subprocess
import sys

import pytest
from harness import ROOT, Computer, LoopbackCluster, Servers

CURVES = """
from tftrainer.examples import exponential
for curve in (exponential.of_one_process(300), exponential.of_one_process(300, 32)):
    print(*map(repr, curve))
"""


def curves_of_one_process() -> tuple[list[float], list[float]]:
    """Losses with all points in every step, and with the average of the two halves' gradients."""
    done = subprocess.run(
        [sys.executable, "-c", CURVES],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "trainer_image"),
            "TF_USE_LEGACY_KERAS": "1",
            "CUDA_VISIBLE_DEVICES": "-1",
        },
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    whole, halves = done.stdout.splitlines()
    return [float(loss) for loss in whole.split()], [float(loss) for loss in halves.split()]


def test_two_workers_give_the_curve_of_one_process(here: Computer, servers: Servers) -> None:
    chief = here.start(
        "chief",
        "--task=tftrainer.examples.exponential",
        *("--mode=synchronous", "--batch-size=32", "--epochs=300", "--history"),
        env=servers.cluster.env("chief", TFTRAINING_CHECKPOINT_DIR=str(here.folder)),
    )
    whole, halves = curves_of_one_process()

    assert chief.ends() == 0, chief.log
    with (here.folder / "history.csv").open() as file:
        curve = [float(row["loss"]) for row in csv.DictReader(file)]
    assert curve == halves
    assert curve == pytest.approx(whole, rel=1e-5, abs=0)
    assert curve == pytest.approx(whole, rel=0, abs=1e-6)
    assert curve[-1] < curve[0] / 50
    said = re.search(r"300 losses down to .*: those of one process differ by (\S+)", chief.log)
    assert said is not None
    assert 0 < float(said[1]) <= 1e-5


def test_values_and_devices_are_as_asked(here: Computer, servers: Servers) -> None:
    env = servers.cluster.env("chief")
    chief = here.start("chief", module="tftrainer.examples.placement", env=env)

    assert chief.ends() == 0, chief.log
    table = [line.split() for line in chief.log.splitlines() if "/job:" in line]
    found = {" ".join(words[:-4]): (words[-4], words[-1]) for words in table}
    worker = [f"/job:worker/replica:0/task:{index}/device:CPU:0" for index in range(2)]
    server = "/job:ps/replica:0/task:0/device:CPU:0"
    assert found["a*b"] == ("2.53", worker[0])
    assert found["a+b"] == ("3.4", worker[1])
    assert found["(3 + 4) * (5 * 6 + 4)"] == ("238", server)
    for kind, sizes in (("equal", (500, 500)), ("unequal", (333, 667))):
        assert found[f"{kind} slices, weighted mean"] == ("500.5", server)
        for index, size in enumerate(sizes):
            assert found[f"{kind} slice {index}, of {size}"][1] == worker[index]
    metrics = json.loads(chief.last_words)["metrics"]
    assert metrics["a*b/(a+b)"] == pytest.approx(1.1 * 2.3 / (1.1 + 2.3), rel=1e-6)
    # Of 1 to 333 and 334 to 1000: where the slices are unequal, that is not the mean of all.
    assert metrics["unequal slices, mean of means"] == (167 + 667) / 2


def test_layers_on_two_workers_give_the_losses_of_one_process(
    here: Computer, servers: Servers
) -> None:
    env = servers.cluster.env("chief")
    chief = here.start("chief", module="tftrainer.examples.model_parallel", env=env)

    assert chief.ends() == 0, chief.log
    hidden, output = (f"/job:worker/replica:0/task:{index}/device:CPU:0" for index in range(2))
    assert re.search(rf"^hidden layer +{hidden}$", chief.log, re.MULTILINE)
    assert re.search(rf"^its gradient +{hidden}$", chief.log, re.MULTILINE)
    assert re.search(rf"^loss +{output}$", chief.log, re.MULTILINE)
    # By Keras, in another process.
    whole, _ = curves_of_one_process()
    metrics = json.loads(chief.last_words)["metrics"]
    assert metrics["loss"] == pytest.approx(whole[-1], rel=1e-4)


def test_the_mean_of_models_of_three_tasks_is_better_than_they_are(here: Computer) -> None:
    """In a cluster of its own, with a job of another name."""
    process = here.start("alone", module="tftrainer.examples.placement.ensemble")

    assert process.ends() == 0, process.log
    rows = re.findall(r"^(member \d|mean of all) +(\S+)  (\S+)$", process.log, re.MULTILINE)
    *members, mean = rows
    assert [device for _, _, device in members] == [
        f"/job:member/replica:0/task:{index}/device:CPU:0" for index in range(3)
    ]
    assert mean[2] == "/job:client/replica:0/task:0/device:CPU:0"
    assert float(mean[1]) < 0.6 * statistics.mean(float(loss) for _, loss, _ in members)


def test_a_program_without_a_cluster_says_where_it_belongs(here: Computer) -> None:
    alone = here.start("alone", module="tftrainer.examples.placement")

    assert alone.ends() == 64
    assert "tftj run --local" in alone.last_words


def test_one_to_five_make_fifteen(here: Computer, servers: Servers) -> None:
    env = servers.cluster.env("chief")
    chief = here.start("chief", module="tftrainer.examples.both_ways", env=env)

    assert chief.ends() == 0, chief.log
    sums = dict(re.findall(r"^(\S.*\S) +(\d+)   possible: ", chief.log, re.MULTILINE))
    own = sums.pop("five functions, each adds its worker's next")
    assert own in ("9", "11", "15")
    assert list(sums.values()) == ["15", "15", "15"]


def test_each_ps_holds_half_of_the_table(here: Computer) -> None:
    cluster = LoopbackCluster.of(worker=1, ps=2)
    for role, index in (("worker", 0), ("ps", 0), ("ps", 1)):
        env = cluster.env(role, index)
        here.start(f"{role}-{index}", "--task=none", env=env, serve=False)
    chief = here.start(
        "chief",
        "--task=tftrainer.examples.embedding",
        *("--batch-size=128", "--partition-bytes=1000000"),
        env=cluster.env("chief"),
    )

    assert chief.ends() == 0, chief.log
    held = re.findall(r"/job:ps/replica:0/task:(\d)/\S+ holds (\S+) MB of the model", chief.log)
    assert held == [("0", "12.8"), ("1", "12.8")]
    accuracy = re.search(r"held-out accuracy (\S+),", chief.log)
    assert accuracy is not None
    assert float(accuracy[1]) >= 0.75


def test_two_replicas_learn_what_one_learns(here: Computer) -> None:
    # Real images where they are given, else the small digits.
    images = {name: value for name, value in os.environ.items() if name == "MNIST_DIR"}
    settings = {"one": ("--batch-size=100",), "two": ("--batch-size=50", "--logical-cpus=2")}
    started = [
        here.start(
            name,
            "--task=tftrainer.examples.mirrored_mnist",
            *("--epochs=3", "--seed=1", *arguments),
            env={"TFTRAINING_STRATEGY": "Mirrored", **images},
        )
        for name, arguments in settings.items()
    ]

    for process in started:
        assert process.ends() == 0, process.log
    accuracies = [
        float(found[1])
        for process in started
        if (found := re.search(r"held-out accuracy (\S+), .* an epoch in \S+ s", process.log))
    ]
    assert min(accuracies) >= 0.951
    assert accuracies == [pytest.approx(accuracies[0], abs=0.005)] * 2
