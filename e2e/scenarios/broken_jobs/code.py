"""Broken jobs that start: wrong arguments, code and data, and training that cannot go on."""

from typing import Any

from e2e.jobs import claim
from e2e.scenarios.broken_jobs.broken_job import BrokenJob, bring
from e2e.scenarios.space import Space, job
from tools.waiting import eventually

_Object = dict[str, Any]

_SECONDS = 180

_TASK = """\
import tensorflow as tf


def model():
    network = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    network.compile(optimizer="sgd", loss="mse")
    return network


def dataset(split, context):
    features = tf.random.stateless_uniform([6400, 4], seed=(1, 2))
    labels = tf.reduce_sum(features, axis=1, keepdims=True)
    examples = tf.data.Dataset.from_tensor_slices((features, labels))
    return examples.batch(context.batch_size)
"""
"""What a user wrote before the mistake."""

# TensorFlow's own notes, then what matters.
_SCRIPT = """\
import csv
import tensorflow as tf

tf.constant(1.0) + 1.0
for number in range(30):
    print(f"2026-01-01 00:00:00.{number:06}: I tensorflow/core/framework/op.cc:1] loaded")
rows = csv.DictReader(["pixels,label"])
if "digit" not in rows.fieldnames:
    raise ValueError("digits.csv has no column digit")
"""

_BATCHES = "return examples.batch(context.batch_size)"
_KERAS = "import keras\nimport tensorflow as tf"
_NUMBERS = '.map(lambda x, y: (x, tf.strings.to_number(tf.where(y > 3.5, "n/a", "1"))))'
_ON_THE_CLAIM = {"persistentVolumeClaim": {"claimName": "data"}}


def _module(*edits: tuple[str, str]) -> _Object:
    """Return the ConfigMap with the user's module, with mistakes made in it."""
    source = _TASK
    for before, after in edits:
        assert before in source
        source = source.replace(before, after)
    return _config_map(source)


def _config_map(source: str) -> _Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "task"},
        "data": {"task.py": source},
    }


def _training(
    name: str,
    *arguments: str,
    container: _Object | None = None,
    **spec: Any,  # noqa: ANN401 - YAML
) -> _Object:
    """Return a job of one pod that trains the user's module; keywords replace fields."""
    made = job(name, **{"strategy": "Mirrored", "worker": None, "ps": None, **spec})
    made["spec"] = {field: value for field, value in made["spec"].items() if value is not None}
    pod = made["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "task", "configMap": {"name": "task"}}]
    pod["containers"][0] |= {
        "args": ["--task=/task/task.py", *arguments],
        "volumeMounts": [{"name": "task", "mountPath": "/task"}],
        **(container or {}),
    }
    return made


def _distributed(name: str, *arguments: str, **spec: Any) -> _Object:  # noqa: ANN401 - YAML
    """Return the same with a worker and a parameter server."""
    roles = {"strategy": "ParameterServer", "worker": {"replicas": 1}, "ps": {}}
    return _training(name, *arguments, **{**roles, **spec})


def _with_memory(limit: str) -> _Object:
    return {"resources": {"requests": {"memory": limit}, "limits": {"memory": limit}}}


def _wrong_code(mistake: str, name: str, edit: tuple[str, str], *words: str) -> BrokenJob:
    return BrokenJob(mistake, _training(name), "Failed", words, beside=(_module(edit),))


def _again_on_the_same_volume(space: Space, broken: BrokenJob) -> None:
    bring(space, broken)
    space.wait_for("Succeeded", name=broken.name, seconds=_SECONDS)
    space.kubectl("delete", "tftj", broken.name, "--timeout=60s")
    eventually(lambda: not space.pods(), "its pods are gone", 60)
    space.apply(broken.manifest)


def _beside_one_that_lives(space: Space, broken: BrokenJob) -> None:
    space.apply(*broken.beside)
    name = broken.beside[-1]["metadata"]["name"]
    eventually(lambda: space.status(name).get("lastCheckpoint"), "its checkpoint", _SECONDS)
    space.apply(broken.manifest)


def _on_one_directory(name: str) -> _Object:
    arguments = ("--epochs=100000", "--checkpoint-seconds=2", "--checkpoint-dir=/checkpoints/ours")
    return _training(name, *arguments, checkpoint=_ON_THE_CLAIM)


STARTING = (
    _wrong_code(
        *("a syntax error", "syntax", ("def model():", "def model()")),
        *("has a syntax error", "/task/task.py, line 4"),
    ),
    _wrong_code(
        *("a module without `model()`", "function", ("def model():", "def network():")),
        *("/task/task.py has no model()", "it needs `def model()"),
    ),
    BrokenJob(
        "a file that is not there",
        _training("file", "--task=/task/tusk.py"),
        "Failed",
        ("--task=/task/tusk.py cannot be read: No such file or directory",),
        beside=(_module(),),
    ),
    BrokenJob(
        "an argument that is no number",
        _training("argument", "--epochs=five"),
        "Failed",
        ("--epochs", "'five' is not an integer"),
        beside=(_module(),),
    ),
    _wrong_code(
        *("a package that the image lacks", "package"),
        ("import tensorflow as tf", "import lightgbm\nimport tensorflow as tf"),
        *("No module named 'lightgbm'", "/task/task.py, line 1", "use an image that has it"),
    ),
    BrokenJob(
        "a model of Keras 3",
        _training("keras"),
        "Failed",
        ("returned a Keras 3 model", "Instead of `import keras`"),
        beside=(_module(("tf.keras", "keras"), ("import tensorflow as tf", _KERAS)),),
    ),
    _wrong_code(
        *("an empty dataset", "empty", (_BATCHES, f"{_BATCHES}.take(0)")),
        *('dataset("train", context) of /task/task.py is empty: it has no examples, or a filter'),
    ),
    BrokenJob(
        "labels of another shape than the model's output",
        _training("shape"),
        "Failed",
        ("cannot take its outputs", "are incompatible"),
        beside=(
            _module(
                ('loss="mse"', 'loss="categorical_crossentropy"'),
                ("tf.reduce_sum(features, axis=1, keepdims=True)", "features"),
            ),
        ),
    ),
    BrokenJob(
        "a filter that lets nothing pass, with `--steps-per-epoch`",
        _training("filter", "--steps-per-epoch=10"),
        "Failed",
        ('dataset("train", context) of /task/task.py is empty: it has no examples, or a filter',),
        beside=(_module((_BATCHES, f"{_BATCHES}.filter(lambda x, y: tf.size(x) < 0)")),),
    ),
    BrokenJob(
        "a liveness probe that fails",
        _training(
            "probe",
            "--epochs=100000",
            container={
                "livenessProbe": {
                    "httpGet": {"port": 9999, "path": "/"},
                    "periodSeconds": 5,
                    "failureThreshold": 1,
                }
            },
            runPolicy={"backoffLimit": 0},
        ),
        "Failed",
        ("its liveness probe (httpGet port 9999 /) failed", "correct livenessProbe"),
        beside=(_module(),),
    ),
    BrokenJob(
        "an exception below TensorFlow's notes, in a script of one's own",
        _training(
            "script",
            container={"command": ["python3", "/task/task.py"], "args": []},
            runPolicy={"backoffLimit": 0},
        ),
        "Failed",
        ("ValueError: digits.csv has no column digit (/task/task.py, line 9)",),
        beside=(_config_map(_SCRIPT),),
    ),
)
"""They fail before the first step."""

TRAINING = (
    BrokenJob(
        "one bad line in the data, each time at the same step",
        _distributed("line"),
        "Failed",
        ("could not correctly convert string: n/a",),
        beside=(_module((_BATCHES, f"{_BATCHES}{_NUMBERS}")),),
    ),
    BrokenJob(
        "a learning rate that is far too high",
        _training("diverged", "--epochs=100"),
        "Failed",
        ("training has diverged: loss is", "at step", "Lower the learning rate"),
        beside=(_module(('optimizer="sgd"', "optimizer=tf.keras.optimizers.SGD(1e9)")),),
    ),
    BrokenJob(
        "a chief that needs more memory than its limit",
        _training("memory", container=_with_memory("900Mi"), runPolicy={"backoffLimit": 1}),
        "Failed",
        ("exceeded its memory limit of 900Mi", "raise resources.limits.memory"),
        beside=(_module(("[6400, 4]", "[64000, 40000]")),),
    ),
    BrokenJob(
        "a job created again on the volume with its result",
        _training("again", checkpoint=_ON_THE_CLAIM),
        "Failed",
        ("holds the completed training of", "spec.checkpoint.resumeFrom"),
        beside=(claim("data"), _module()),
        bring=_again_on_the_same_volume,
    ),
    BrokenJob(
        "two jobs that train in one directory",
        _on_one_directory("second"),
        "Failed",
        ("/checkpoints/ours belongs to", "first", "use another directory"),
        beside=(claim("data"), _module(), _on_one_directory("first")),
        bring=_beside_one_that_lives,
    ),
)
"""They train, or need others, before they fail."""
