"""The model that a training leaves behind, read again by processes that know no trainer."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import urllib.request
import zipfile
from pathlib import Path

import numpy as np
import pytest
from harness import EXPORTS, ROOT, Computer, LoopbackCluster, Process, Servers, inherited

from tools.pages import code_blocks
from tools.ports import free_port

PAGE = (ROOT / "docs/guide/export.md").read_text()
TASK_PAGE = (ROOT / "docs/guide/user-code.md").read_text()
START_PAGE = (ROOT / "docs/guide/getting-started.md").read_text()

# Names and shapes as a table has them: two features, of which the model uses the text as well.
TASK = """
    import numpy as np
    import tensorflow as tf

    EXAMPLES = {"size": np.linspace(0, 9, 50, dtype=np.float32)[:, None],
                "kind": np.array([["small"], ["large"], ["odd"], ["small"], ["new"]] * 10)}

    def model():
        layers = tf.keras.layers
        size = layers.Input((1,), name="size")
        kind = layers.Input((1,), name="kind", dtype=tf.string)
        coded = layers.StringLookup(vocabulary=["small", "large"], output_mode="one_hot")(kind)
        merged = layers.Concatenate()([layers.Normalization(mean=4.5, variance=9.0)(size), coded])
        hidden = layers.Dense(64, activation="tanh")(merged)
        hidden = layers.Dropout(0.5)(layers.BatchNormalization()(hidden))
        network = tf.keras.Model({"size": size, "kind": kind}, layers.Dense(1)(hidden))
        network.compile("adam", "mse")
        return network

    def dataset(split, context):
        labels = EXAMPLES["size"] ** 0.5
        data = tf.data.Dataset.from_tensor_slices((EXAMPLES, labels))
        return data.repeat(20).batch(context.batch_size)

    class Predicts(tf.keras.callbacks.Callback):
        def __init__(self, path):
            self.path = path

        def on_train_end(self, logs=None):
            # By all members: they read the averages of batch normalization together.
            np.savez(self.path, predictions=self.model(EXAMPLES, training=False), **EXAMPLES)

    def callbacks(context):
        return [Predicts("trained.npz" if context.input_pipeline == 0 else "unread.npz")]
"""

LOADS = """
import sys
import numpy as np
import tensorflow as tf
import tf_keras

folder, trained = sys.argv[1], np.load("trained.npz")
examples = {"size": tf.constant(trained["size"]), "kind": tf.constant(trained["kind"])}

signature = tf.saved_model.load(folder).signatures["serving_default"]
found = {"SavedModel": signature(**examples)["output_0"].numpy()}

# In the way of TensorFlow Serving: a session, on devices that are named as here.
with tf.compat.v1.Session(graph=tf.Graph()) as session:
    loaded = tf.compat.v1.saved_model.load(session, ["serve"], folder)
    served = loaded.signature_def["serving_default"]
    fed = {served.inputs[name].name: trained[name] for name in examples}
    found["session"] = session.run(served.outputs["output_0"].name, fed)

model = tf_keras.models.load_model(f"{folder}/model.keras")
found["keras"] = model.predict(examples, verbose=0)
model.evaluate(examples, trained["size"], verbose=0)

for name, predictions in found.items():
    print(name, float(np.max(np.abs(predictions - trained["predictions"]))))
"""


def run(here: Computer, code: str, *arguments: str) -> str:
    """Run Python that is no trainer; what it prints."""
    command = [sys.executable, "-c", code, *arguments]
    environment = {**os.environ, "TF_USE_LEGACY_KERAS": "1", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        command, cwd=here.folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def start(here: Computer, servers: Servers, how: str) -> Process:
    (here.folder / "mine.py").write_text(textwrap.dedent(TASK))
    told = {
        "TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt"),
        "TFTRAINING_JOB_UID": "u",
    }
    task = ("--task=mine.py", "--epochs=3", "--batch-size=10", EXPORTS)
    match how:
        case "servers":
            env = servers.cluster.env("chief", **told)
            return here.start("chief", *task, "--partition-bytes=100", env=env)
        case "members":
            cluster = LoopbackCluster.of("MultiWorkerMirrored", worker=1)
            here.start("worker", *task, env=cluster.env("worker", **told))
            return here.start("chief", *task, env=cluster.env("chief", **told))
        case _:
            return here.start("alone", *task, env={**told, "TFTRAINING_JOB": "scenario"})


@pytest.mark.parametrize("how", ["alone", "servers", "members"])
def test_it_predicts_as_the_trained_model_does(here: Computer, servers: Servers, how: str) -> None:
    chief = start(here, servers, how)
    assert chief.ends() == 0, chief.log

    done = json.loads(chief.last_words)
    folder = here.folder / f"ckpt/export/{done['step']}"
    assert done["model"] == {
        "step": done["step"],
        "path": str(folder),
        "formats": ["saved_model", "keras"],
    }
    assert [each.name for each in folder.parent.iterdir()] == [str(done["step"])]
    differences = dict(line.split() for line in run(here, LOADS, str(folder)).splitlines())
    assert sorted(differences) == ["SavedModel", "keras", "session"]
    assert max(map(float, differences.values())) <= 1e-6
    predictions = np.load(here.folder / "trained.npz")["predictions"]
    assert np.std(predictions) > 0.01, "it has learned something that could differ"


KILLED = """
    import os
    import signal
    from pathlib import Path
    import tensorflow as tf
    from light_digits import dataset, model

    def callbacks(context):
        return [tf.keras.callbacks.EarlyStopping("loss", patience=1, min_delta=1e9)]

    def export(model, path):
        model.save_weights(f"{path}/model.weights.h5")
        if not Path("killed").exists():
            Path("killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_chief_that_is_killed_in_the_middle_leaves_no_half_and_exports_again(
    here: Computer,
) -> None:
    (here.folder / "mine.py").write_text(textwrap.dedent(KILLED))
    env = {"TFTRAINING_CHECKPOINT_DIR": "ckpt", "TFTRAINING_JOB": "j", "TFTRAINING_JOB_UID": "u"}
    task = ("--task=mine.py", "--epochs=9", "--steps-per-epoch=10", EXPORTS)
    export = here.folder / "ckpt/export"

    assert here.start("killed", *task, env=env).ends() == -9
    assert not [each.name for each in export.iterdir() if each.name.isdecimal()]

    again = here.start("again", *task, env=env)
    assert again.ends() == 0, again.log
    # A callback ended the training after 2 of 9 epochs.
    assert "already complete at step 20" in again.log
    assert json.loads(again.last_words)["model"]["formats"] == ["custom"]
    assert [each.name for each in export.iterdir()] == ["20"]
    assert [each.name for each in (export / "20").iterdir()] == ["model.weights.h5"]


SAVING = """
    import tensorflow as tf
    from light_digits import dataset, model

    def callbacks(context):
        return [tf.keras.callbacks.ModelCheckpoint("epoch-{epoch}.keras")]
"""


@pytest.mark.parametrize("mode", ["alone", "fit"])
def test_every_keras_file_is_one(here: Computer, servers: Servers, mode: str) -> None:
    """In each thread but the main one, Keras itself writes all but the first as HDF5."""
    (here.folder / "mine.py").write_text(textwrap.dedent(SAVING))
    task = ["--task=mine.py", "--epochs=2", "--steps-per-epoch=10", "--keep-best=loss", EXPORTS]
    env = {"TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt"), "TFTRAINING_JOB_UID": "u"}
    if mode != "alone":
        task.append(f"--mode={mode}")
        env = servers.cluster.env("chief", **env)
    chief = here.start("chief", *task, env=env)
    assert chief.ends() == 0, chief.log

    written = [*here.folder.glob("epoch-*.keras"), *here.folder.glob("ckpt/export/**/model.keras")]
    assert len(written) == 4
    assert [path for path in written if not zipfile.is_zipfile(path)] == []


SLOW = """
    import time
    from light_digits import dataset, model

    def export(model, path):
        print("exporting", flush=True)
        time.sleep(60)
"""


def test_sigterm_in_the_export_says_that_the_checkpoint_is_saved(here: Computer) -> None:
    (here.folder / "mine.py").write_text(textwrap.dedent(SLOW))
    task = ("--task=mine.py", "--steps-per-epoch=10", EXPORTS, "--grace-seconds=1")
    chief = here.start("chief", *task, "--checkpoint-dir=ckpt")
    chief.says("exporting")
    chief.signal(signal.SIGTERM)

    assert chief.ends() == 143, chief.log
    assert "terminated by SIGTERM in the export" in chief.last_words
    assert "the checkpoint is saved" in chief.last_words


def test_the_page_from_job_to_served_model(here: Computer) -> None:
    train, serve, ask = code_blocks(PAGE, "bash")
    load, own = code_blocks(PAGE, "python")
    (here.folder / "task.py").write_text(code_blocks(TASK_PAGE, "python")[0])
    environment = {
        **inherited(),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TF_USE_LEGACY_KERAS": "1",
    }

    def bash(command: str) -> str:
        ran = subprocess.run(
            ["bash", "-euc", command],
            cwd=here.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr

    log = bash(train)
    promised = re.search(r"`(exported the model [^`]*)`", PAGE)
    assert promised is not None
    assert promised[1] in log
    numbers = [float(each) for each in re.findall(r"[-\d.]+(?:e-?\d+)?", run(here, load))]
    assert len(numbers) == 4
    assert numbers[:2] == pytest.approx(numbers[2:], abs=1e-6)

    # Getting started ends with the same model, where `tftj get-model` has copied it to.
    task, predict = code_blocks(START_PAGE, "python")
    assert code_blocks(TASK_PAGE, "python")[0].startswith(task)
    (here.folder / "model").symlink_to("sums/export")
    (predicted,) = re.findall(r"\[\[(.+)\]\]", run(here, predict))
    assert float(predicted) == pytest.approx(numbers[0], abs=1e-6)
    assert float(predicted) == pytest.approx(1.0, abs=0.5)

    port = str(free_port())
    _, _, module, *arguments = serve.replace("8501", port).split()
    server = here.start("server", *arguments, module=module)
    address = f"http://127.0.0.1:{port}/v1/models/sums"
    server.says(f"serving sums at {address}")
    assert b"AVAILABLE" in urllib.request.urlopen(address).read()
    answer = json.loads(bash(ask.replace("8501", port)))
    assert [row[0] for row in answer["predictions"]] == pytest.approx(numbers[:2], abs=1e-6)
    assert answer["predictions"][1][0] == pytest.approx(2.0, abs=0.5)

    namespace: dict = {}
    exec(own, namespace)  # noqa: S102 - the page's own code
    assert callable(namespace["export"])
