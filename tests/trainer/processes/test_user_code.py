"""The guide's example, as it stands on the page, under every strategy."""

import json
import re
import textwrap
from pathlib import Path

import pytest
from harness import ROOT, Computer, LoopbackCluster, Process, Servers

PAGE = (ROOT / "docs/guide/user-code.md").read_text()
EXAMPLE, TRAIN_STEP, TEST_STEP = re.findall(
    r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE
)


OF_VARYING_SIZE = """
import tensorflow as tf


def model():
    layers = tf.keras.layers
    network = tf.keras.Sequential([
        layers.Embedding(10, 4), layers.Conv1D(8, 5), layers.BatchNormalization(),
        layers.GlobalMaxPooling1D(), layers.Dense(1),
    ])
    network.compile("adam", "mse", ["mae"])
    return network


def text(number):
    length = 5 + number % 7
    return tf.range(length) % 10, tf.reshape(tf.cast(number % 2, tf.float32), [1])


def dataset(split, context):
    return tf.data.Dataset.range(640).map(text).padded_batch(context.batch_size, ([None], [1]))
"""


def learned(process: Process) -> dict[str, float]:
    assert process.ends() == 0, process.log
    done = json.loads(process.last_words)
    assert done["step"] == done["totalSteps"]
    assert done["metrics"]["mae"] < 0.1
    return dict(done["metrics"])


def mounted(folder: Path, **files: str) -> Path:
    """A ConfigMap volume as the kubelet makes it: links through a link to a dated folder."""
    dated = folder / "..2026_11_21"
    dated.mkdir(parents=True)
    (folder / "..data").symlink_to(dated.name)
    for name, text in files.items():
        (dated / f"{name}.py").write_text(text)
        (folder / f"{name}.py").symlink_to(f"..data/{name}.py")
    return folder


def test_the_manifest_carries_the_example_of_the_page() -> None:
    manifest = (ROOT / "examples/user-code.yaml").read_text()

    assert textwrap.indent(EXAMPLE, " " * 4) in manifest
    code = [line for line in EXAMPLE.splitlines() if line.strip()]
    assert len(code) <= 20


def test_it_runs_alone(here: Computer) -> None:
    (here.folder / "example.py").write_text(EXAMPLE)

    learned(here.start("laptop", "--task=example.py", "--epochs=5"))


def test_it_runs_from_a_configmap_under_parameter_servers(here: Computer, servers: Servers) -> None:
    network, at, rest = EXAMPLE.partition("def dataset")
    data = f"import tensorflow as tf\n\n\n{at}{rest}"
    importing = f"{network}from data import callbacks, dataset\n"
    folder = mounted(here.folder / "task", task=importing, data=data)

    chief = here.start(
        "chief", f"--task={folder}/task.py", "--epochs=5", env=servers.cluster.env("chief")
    )

    learned(chief)


@pytest.mark.parametrize("mode", ["asynchronous", "fit"])
def test_an_older_optimizer_is_used_by_servers(here: Computer, servers: Servers, mode: str) -> None:
    """It refuses under parameter servers what others take."""
    older = EXAMPLE.replace('"adam"', "tf.keras.optimizers.legacy.Adam(clipnorm=10.0)")
    assert older != EXAMPLE
    (here.folder / "example.py").write_text(older)

    task = ("--task=example.py", "--epochs=5", f"--mode={mode}")
    learned(here.start("chief", *task, env=servers.cluster.env("chief")))


def test_it_runs_mirrored_with_steps_of_its_own(here: Computer) -> None:
    (here.folder / "example.py").write_text(f"{EXAMPLE}\n\n{TRAIN_STEP}\n\n{TEST_STEP}")
    shared = {
        "TFTRAINING_STRATEGY": "Mirrored",
        "TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt"),
        "TFTRAINING_JOB_UID": "u",
    }
    # With half as many steps in an epoch as alone.
    task = ("--task=example.py", "--epochs=10", "--batch-size=32", "--logical-cpus=2")

    metrics = learned(here.start("mirrored", *task, env=shared))
    evaluator = here.start(
        "evaluator", *task, env=LoopbackCluster.of("Mirrored").env("evaluator", **shared)
    )
    assert evaluator.ends() == 0, evaluator.log
    evaluated = json.loads(evaluator.last_words)["metrics"]
    assert sorted(evaluated) == ["loss", "size"]
    assert 0 < evaluated["loss"] < 0.1

    assert metrics["size"] > 0


def test_texts_of_varying_length_are_trained_by_servers_and_evaluated(
    here: Computer, servers: Servers
) -> None:
    (here.folder / "texts.py").write_text(OF_VARYING_SIZE)
    shared = {"TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt"), "TFTRAINING_JOB_UID": "u"}
    task = ("--task=texts.py", "--epochs=3", "--batch-size=16")

    chief = here.start("chief", *task, env=servers.cluster.env("chief", **shared))
    evaluator = here.start("evaluator", *task, env=servers.cluster.env("evaluator", **shared))

    assert (chief.ends(), evaluator.ends()) == (0, 0), chief.log + evaluator.log
    trained, evaluated = (json.loads(each.last_words) for each in (chief, evaluator))
    assert evaluated["step"] == trained["step"] >= 120
    assert sorted(evaluated["metrics"]) == ["loss", "mae"]
