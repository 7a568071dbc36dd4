"""Which models can be exported in which format, and what becomes of one that cannot."""

import json
import os
import textwrap
import threading
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tftrainer.config.arguments import ExportFormat
from tftrainer.context import Context
from tftrainer.data.position import Position
from tftrainer.errors import CheckpointUnavailableError, TerminatedError
from tftrainer.runtime import process
from tftrainer.runtime.progress import ExportedModel

from tools.ports import free_port

process.prepare(os.environ)

import tensorflow as tf  # noqa: E402 -- after what it reads is set
from tftrainer.examples import serve  # noqa: E402
from tftrainer.saving import checkpoints, claims  # noqa: E402
from tftrainer.saving.export import Exporter  # noqa: E402
from tftrainer.saving.exported_formats import WRITERS  # noqa: E402
from tftrainer.saving.fence import Fence  # noqa: E402
from tftrainer.user import model  # noqa: E402
from tftrainer.user.task import load  # noqa: E402

BOTH = tuple(ExportFormat)
DATASET = """
import tensorflow as tf

def dataset(split, context):
    data = tf.data.Dataset.from_tensor_slices((FEATURES, tf.zeros([8, 1])))
    return data.batch(4, drop_remainder=True)
"""
PLAIN = """
FEATURES = tf.ones([8, 3])

def model():
    network = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    network.compile("adam", "mse")
    return network
"""
TWO_INPUTS = """
FEATURES = {"b": tf.ones([8, 3]), "a": tf.ones([8, 2]), "unused": tf.ones([8, 1])}

def model():
    a, b = tf.keras.layers.Input((2,), name="a"), tf.keras.layers.Input((3,), name="b")
    sums = tf.keras.layers.Dense(1)(tf.keras.layers.Concatenate()([a, b]))
    network = tf.keras.Model({"a": a, "b": b}, {"sum": sums, "twice": 2 * sums})
    network.compile("adam", {"sum": "mse"})
    return network
"""
NAMES = ["petal length", "petal_length", "Petal_length", "größe", "_hidden", "1st", "self", "b-c"]
ODD_NAMES = f"""
NAMES = {NAMES}
FEATURES = {{name: tf.random.normal([8, 1], seed=7) for name in NAMES}}

class Named(tf.keras.Model):
    def build(self, _):
        self.wide = self.add_weight(name="my weight", shape=[len(NAMES), 1])
        self.shift = tf.Variable([[0.5]], name="_shift: all")

    def call(self, features):
        return tf.concat([features[name] for name in NAMES], 1) @ self.wide + self.shift

def model():
    network = Named()
    network.compile("adam", "mse")
    return network
"""
OWN_CLASS = """
FEATURES = tf.ones([8, 3])

class Mine(tf.keras.Model):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def call(self, features):
        return self.layer(features)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], name="row")])
    def classify(self, row):
        return {"positive": self(row) > 0}

def model():
    network = Mine(tf.keras.layers.Dense(1))
    network.compile("adam", "mse")
    return network
"""
ADAPTED = """
FEATURES = tf.constant([["good day"], ["bad day"]] * 4)

def model():
    layers = tf.keras.layers
    words = layers.TextVectorization(output_mode="multi_hot")
    words.adapt(FEATURES)
    whole = layers.StringLookup(output_mode="one_hot")
    whole.adapt(FEATURES)
    text = layers.Input((1,), dtype=tf.string)
    merged = layers.Concatenate()([words(text), whole(text)])
    network = tf.keras.Model(text, layers.Dense(1)(merged))
    network.compile("adam", "mse")
    return network
"""
RAGGED = """
FEATURES = tf.ragged.constant([[1.0, 2.0], [3.0]] * 4)

def model():
    words = tf.keras.layers.Input([None], ragged=True)
    network = tf.keras.Model(words, tf.keras.layers.Dense(1)(tf.reduce_sum(words, 1)[:, None]))
    network.compile("adam", "mse")
    return network
"""


class Trained:
    """A task, its trained model, and the checkpoint of it."""

    def __init__(self, folder: Path, *parts: str) -> None:
        self.folder = folder
        (folder / "mine.py").write_text("".join(map(textwrap.dedent, [DATASET, *parts])))
        self.task = load(str(folder / "mine.py"))
        self.dataset = self.task.dataset("train", Context())
        self.model = model.build(self.task, Context(), self.dataset)
        kept = checkpoints.Checkpoints(str(folder), keep=1, model=self.model)
        self.saved = kept.save(7, Position(seed=1, batch_size=4, epoch_batches=2))

    def export(
        self, formats: tuple[ExportFormat, ...] = BOTH, fence: Fence | None = None
    ) -> ExportedModel | None:
        exporter = Exporter(self.task, Context(), self.dataset, formats, fence)
        return exporter.export(str(self.folder), self.saved)

    @property
    def path(self) -> Path:
        return self.folder / "export/7"


def served(path: Path, name: str = "serving_default") -> tf.types.experimental.ConcreteFunction:
    loaded = tf.saved_model.load(str(path))
    signature = loaded.signatures[name]
    signature.kept = loaded  # with it would go its variables
    return signature


def specs(signature: tf.types.experimental.ConcreteFunction) -> dict[str, list]:
    _, inputs = signature.structured_input_signature
    return {name: list(spec.shape) for name, spec in inputs.items()}


def test_a_model_takes_any_number_of_examples_and_replaces_an_older_one(tmp_path: Path) -> None:
    trained = Trained(tmp_path, PLAIN)
    (trained.path / "variables").mkdir(parents=True)
    (trained.path / "old").touch()
    (trained.path.parent / ".7.new").mkdir()

    assert trained.export() == ExportedModel(7, str(trained.path), ("saved_model", "keras"))
    assert [each.name for each in trained.path.parent.iterdir()] == ["7"]
    assert not (trained.path / "old").exists()
    signature = served(trained.path)
    (shape,) = specs(signature).values()
    assert shape == [None, 3]
    examples = np.random.default_rng(1).normal(size=[5, 3]).astype(np.float32)
    (found,) = signature(tf.constant(examples)).values()
    assert found.numpy() == pytest.approx(trained.model(examples).numpy(), abs=1e-6)


@pytest.mark.filterwarnings("ignore:Input dict contained keys")
def test_inputs_and_outputs_keep_their_names_and_unused_features_are_left_out(
    tmp_path: Path,
) -> None:
    trained = Trained(tmp_path, TWO_INPUTS)

    assert trained.export([ExportFormat.SAVED_MODEL]) is not None
    signature = served(trained.path)
    assert specs(signature) == {"a": [None, 2], "b": [None, 3]}
    assert sorted(signature.structured_outputs) == ["sum", "twice"]
    assert not (trained.path / "model.keras").exists()


def test_names_that_no_signature_takes_are_replaced_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    trained = Trained(tmp_path, ODD_NAMES)

    assert trained.export((ExportFormat.SAVED_MODEL,)) is not None, caplog.text
    signature = served(trained.path)
    names = [
        "petal_length_2",
        "petal_length",
        "Petal_length_1",
        "gr__e",
        "arg__hidden",
        "arg_1st",
        "self_1",
        "b_c",
    ]
    assert sorted(specs(signature)) == sorted(names)
    examples = {name: tf.random.normal([5, 1], seed=n) for n, name in enumerate(NAMES)}
    given = {new: examples[old] for old, new in zip(NAMES, names, strict=True)}
    (found,) = signature(**given).values()
    assert found.numpy() == pytest.approx(trained.model(examples).numpy(), abs=1e-6)
    assert "'petal length' is petal_length_2, 'Petal_length' is Petal_length_1" in caplog.text
    assert "other names than in the model" in caplog.text

    caplog.clear()
    assert Trained(tmp_path, PLAIN).export((ExportFormat.SAVED_MODEL,)) is not None
    assert "other names than in the model" not in caplog.text


def test_a_class_without_a_config_is_exported_as_a_saved_model_with_its_own_signatures(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trained = Trained(tmp_path, OWN_CLASS)

    exported = trained.export()
    assert exported is not None
    assert exported.formats == ("saved_model",)
    assert "cannot be exported as keras: " in caplog.text
    assert "A class of your own needs get_config()" in caplog.text
    assert not (trained.path / "model.keras").exists()
    classify = served(trained.path, "classify")
    assert specs(classify) == {"row": [None, 3]}
    assert classify(row=tf.ones([2, 3]))["positive"].shape == [2, 1]


def test_adapted_vocabularies_are_in_both_formats(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trained = Trained(tmp_path, ADAPTED)

    exported = trained.export()
    assert exported is not None, caplog.text
    assert exported.formats == ("saved_model", "keras"), caplog.text
    examples = tf.constant([["good day"], ["bad day"], ["a new one"]])
    again = tf.keras.models.load_model(trained.path / "model.keras")
    wanted = trained.model(examples).numpy()
    assert again(examples).numpy() == pytest.approx(wanted, abs=1e-6)
    (found,) = served(trained.path)(examples).values()
    assert found.numpy() == pytest.approx(wanted, abs=1e-6)


def test_features_that_no_signature_takes_leave_the_other_format(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trained = Trained(tmp_path, RAGGED)

    exported = trained.export()
    assert exported is not None
    assert exported.formats == ("keras",)
    assert "cannot be exported as saved_model: " in caplog.text
    assert [each.name for each in trained.path.iterdir()] == ["model.keras"]


def test_what_cannot_be_exported_at_all_leaves_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trained = Trained(tmp_path, RAGGED)

    assert trained.export((ExportFormat.SAVED_MODEL,)) is None
    assert f"the model is not exported; checkpoint {trained.saved.path} holds it" in caplog.text
    assert list(trained.path.parent.iterdir()) == []


def test_nothing_is_written_where_nothing_is_wanted(tmp_path: Path) -> None:
    trained = Trained(tmp_path, PLAIN)

    assert trained.export(()) is None
    assert not (tmp_path / "export").exists()


def test_the_tasks_own_export_replaces_all_formats(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = """
        def export(model, path):
            model.save_weights(f"{path}/own.weights.h5")
        """
    trained = Trained(tmp_path, PLAIN, own)
    exported = trained.export()
    assert exported is not None
    assert exported.formats == ("custom",)
    assert [each.name for each in trained.path.iterdir()] == ["own.weights.h5"]

    assert Trained(tmp_path, PLAIN, "def export(model, path): pass").export() is None
    assert "wrote nothing to path" in caplog.text

    with pytest.raises(ZeroDivisionError):
        Trained(tmp_path, PLAIN, "def export(model, path): 1 / 0").export()
    assert "a restart repeats none of them, and calls it again" in caplog.text


def test_a_folder_that_cannot_be_written_is_an_error_of_the_directory(tmp_path: Path) -> None:
    trained = Trained(tmp_path, PLAIN)
    (tmp_path / "export").touch()

    with pytest.raises(CheckpointUnavailableError, match=r"the exported model in .* be written"):
        trained.export()


@pytest.mark.parametrize("kind", [tf.errors.AbortedError, tf.errors.UnavailableError])
def test_storage_that_is_away_is_an_error_of_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[tf.errors.OpError]
) -> None:
    away = kind(None, None, "All 10 retry attempts failed. The last failure: 503")

    def fails(*_: object, **__: object) -> None:
        raise away

    monkeypatch.setitem(WRITERS, ExportFormat.SAVED_MODEL, fails)
    with pytest.raises(CheckpointUnavailableError, match="the exported model in") as raised:
        Trained(tmp_path, PLAIN).export()
    # Under ParameterServer, who catches it asks whether a ps is lost.
    assert raised.value.__cause__ is away


def test_a_mounted_bucket_that_renames_files_alone_gets_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = tf.io.gfile.rename

    def of_files(old: str, new: str, **more: bool) -> None:
        if Path(old).is_dir():
            # As gcsfuse refuses it.
            raise tf.errors.ResourceExhaustedError(None, None, f"{old}; Too many open files")
        rename(old, new, **more)

    monkeypatch.setattr(tf.io.gfile, "rename", of_files)
    trained = Trained(tmp_path, PLAIN)
    for _ in range(2):
        assert trained.export() == ExportedModel(7, str(trained.path), ("saved_model", "keras"))
        assert [each.name for each in trained.path.parent.iterdir()] == ["7"]
        examples = tf.ones([2, 3])
        (found,) = served(trained.path)(examples).values()
        again = tf.keras.models.load_model(trained.path / "model.keras")
        for outputs in (found, again(examples)):
            assert outputs.numpy() == pytest.approx(trained.model(examples).numpy(), abs=1e-6)


def test_what_a_full_volume_cut_off_leaves_room_for_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object, __: object, folder: str) -> None:
        Path(folder, "half").write_text("large")
        raise tf.errors.ResourceExhaustedError(None, None, "half; No space left on device")

    monkeypatch.setitem(WRITERS, ExportFormat.SAVED_MODEL, fails)
    trained = Trained(tmp_path, PLAIN)
    with pytest.raises(CheckpointUnavailableError, match="No space left on device"):
        trained.export()
    assert list(trained.path.parent.iterdir()) == []


OWN_SIGNATURES = """
FEATURES = {{"features": tf.ones([8, 3])}}

class Mine(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.layer = tf.keras.layers.Dense(1)

    def call(self, features):
        return self.layer(features["features"])
{signatures}
def model():
    network = Mine()
    network.compile("adam", "mse")
    return network
"""
OWN_SIGNATURE = """
    @tf.function(input_signature=[tf.TensorSpec([None, 3], name="row")])
    def {name}(self, row):
        return {{"{name}": self({{"features": row}})}}
"""


@pytest.mark.parametrize(
    ("names", "default"),
    [
        (["serve"], "features"),
        (["serving_default"], "row"),
        (["serve", "serving_default"], "row"),
    ],
)
def test_signatures_of_the_models_own_may_have_the_usual_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, names: list[str], default: str
) -> None:
    own = "".join(OWN_SIGNATURE.format(name=name) for name in names)
    trained = Trained(tmp_path, OWN_SIGNATURES.format(signatures=own))

    assert trained.export((ExportFormat.SAVED_MODEL,)) is not None, caplog.text
    assert list(specs(served(trained.path))) == [default]
    for name in names:
        assert list(served(trained.path, name).structured_outputs) == [name]


KEYS_AND_NAMES = """
FEATURES = {"user": tf.ones([8, 2]), "item": tf.ones([8, 3]), "unused": tf.ones([8, 1])}

def model():
    user, item = tf.keras.Input((2,), name="user"), tf.keras.Input((3,))
    joined = tf.keras.layers.Concatenate()([user, item])
    network = tf.keras.Model({"user": user, "item": item}, tf.keras.layers.Dense(1)(joined))
    network.compile("adam", "mse")
    return network
"""


@pytest.mark.filterwarnings("ignore:Input dict contained keys")
def test_inputs_in_a_dict_are_known_by_its_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trained = Trained(tmp_path, KEYS_AND_NAMES)

    assert trained.export((ExportFormat.SAVED_MODEL,)) is not None, caplog.text
    assert specs(served(trained.path)) == {"user": [None, 2], "item": [None, 3]}


READS_A_FILE = """
import tempfile
from pathlib import Path

FEATURES = tf.ones([8, 3])

@tf.keras.utils.register_keras_serializable()
class Scaled(tf.keras.layers.Layer):
    def __init__(self, file, **more):
        super().__init__(**more)
        self.file = file

    def build(self, _):
        self.scale = float(Path(self.file).read_text())

    def call(self, inputs):
        return inputs * self.scale

    def get_config(self):
        return {**super().get_config(), "file": self.file}

def model():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "scale").write_text("2.0")
        layers = [Scaled(f"{folder}/scale"), tf.keras.layers.Dense(1)]
        network = tf.keras.Sequential([tf.keras.Input((3,)), *layers])
    network.compile("adam", "mse")
    return network
"""


def test_a_file_that_a_class_reads_again_is_no_storage_that_is_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    exported = Trained(tmp_path, READS_A_FILE).export()

    assert exported is not None
    assert exported.formats == ("saved_model",)
    assert "cannot be exported as keras: FileNotFoundError: " in caplog.text


CALLS_PYTHON = """
FEATURES = tf.ones([8, 3])

class Mine(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.layer = tf.keras.layers.Dense(1)

    @tf.function
    def doubled(self, inputs):
        return tf.numpy_function(lambda given: 2 * given, [inputs], tf.float32, stateful=False)

    def call(self, inputs):
        return self.layer(tf.ensure_shape(self.doubled(inputs), [None, 3]))

    def get_config(self):
        return {}

def model():
    network = Mine()
    network.compile("adam", "mse")
    return network
"""


def test_a_model_that_calls_python_can_be_served_by_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    exported = Trained(tmp_path, CALLS_PYTHON).export()

    assert exported is not None
    assert exported.formats == ("keras",)
    assert "cannot be exported as saved_model: ValueError: it calls Python" in caplog.text


NOT_TRAINED = """
FEATURES = tf.ones([8, 3])

def model():
    masks = tf.keras.layers.Dense(1, trainable=False, bias_initializer=
        tf.keras.initializers.Constant(float("nan")))
    network = tf.keras.Sequential([tf.keras.layers.Dense(1), masks])
    network.compile("adam", "mse")
    return network
"""


OF_TEXT = """
FEATURES = tf.ones([8, 3])

class Named(tf.keras.layers.Layer):
    def build(self, shape):
        self.name_of_data = tf.Variable("none", trainable=False)

    def call(self, features):
        return features

def model():
    network = tf.keras.Sequential([Named(), tf.keras.layers.Dense(1)])
    network.compile("adam", "mse")
    return network
"""


@pytest.mark.parametrize("source", [NOT_TRAINED, OF_TEXT], ids=["NaN", "a text"])
def test_a_weight_that_is_no_number_is_the_same_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, source: str
) -> None:
    exported = Trained(tmp_path, source).export()

    assert exported is not None
    assert exported.formats == ("saved_model", "keras"), caplog.text


WITH_TEXTS = """
FEATURES = {"kind": tf.constant([["a"]] * 8), "size": tf.ones([8, 3])}

def model():
    kind = tf.keras.layers.Input((1,), dtype=tf.string, name="kind")
    size = tf.keras.layers.Input((3,), name="size")
    outputs = {"kind": tf.strings.upper(kind), "price": tf.keras.layers.Dense(1)(size)}
    network = tf.keras.Model({"kind": kind, "size": size}, outputs)
    network.compile("adam", {"price": "mse"})
    return network
"""


def test_the_server_for_trying_answers_with_texts(tmp_path: Path) -> None:
    trained = Trained(tmp_path, WITH_TEXTS)
    assert trained.export((ExportFormat.SAVED_MODEL,)) is not None
    server = serve.server(trained.path.parent, "mine", free_port())
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/v1/models/mine:predict"
    asked = json.dumps({"instances": [{"kind": ["ä"], "size": [1, 2, 3]}]}).encode()
    with server, urllib.request.urlopen(url, asked, timeout=30) as answer:
        (prediction,) = json.load(answer)["predictions"]
        thread.join()

    assert prediction["kind"] == ["ä"]


def test_the_server_for_trying_asks_the_signature_that_is_named(tmp_path: Path) -> None:
    trained = Trained(tmp_path, OWN_CLASS)
    assert trained.export((ExportFormat.SAVED_MODEL,)) is not None
    model = serve.ServedModel(trained.path.parent)

    rows = {"instances": [[1.0, 2.0, 3.0]]}
    assert isinstance(model.predict(rows)["predictions"][0][0], float)
    classified = model.predict({**rows, "signature_name": "classify"})
    assert isinstance(classified["predictions"][0][0], bool)
    with pytest.raises(ValueError, match=r"no signature 'none', but \['classify', 'serve"):
        model.predict({**rows, "signature_name": "none"})


def test_an_older_attempt_leaves_the_version_of_a_newer_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = Trained(tmp_path, PLAIN)
    older, newer = (Fence(str(tmp_path), "mine", "uid", attempt) for attempt in (0, 1))
    writes = WRITERS[ExportFormat.SAVED_MODEL]

    def comes_meanwhile(*given: Any) -> None:
        monkeypatch.setitem(WRITERS, ExportFormat.SAVED_MODEL, writes)
        claims.write(str(tmp_path), claims.Claim("mine", "uid", attempt=1))
        assert trained.export(fence=newer) is not None
        writes(*given)

    monkeypatch.setitem(WRITERS, ExportFormat.SAVED_MODEL, comes_meanwhile)
    with pytest.raises(TerminatedError, match="attempt 1 of mine has taken over"):
        trained.export(fence=older)
    assert [each.name for each in trained.path.parent.iterdir()] == ["7"]
    assert served(trained.path)

    with pytest.raises(TerminatedError, match="attempt 1 of mine has taken over"):
        trained.export(fence=older)


NESTED = """
FEATURES = {"a": {"x": tf.ones([8, 3])}, "b": {"y": tf.ones([8, 2])}}

class Mine(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.layer = tf.keras.layers.Dense(1)

    def call(self, features):
        return self.layer(tf.concat([features["a"]["x"], features["b"]["y"]], 1))

def model():
    network = Mine()
    network.compile("adam", "mse")
    return network
"""


def test_features_in_dicts_of_dicts_are_numbered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trained = Trained(tmp_path, NESTED)

    assert trained.export((ExportFormat.SAVED_MODEL,)) is not None, caplog.text
    assert specs(served(trained.path)) == {"input_1": [None, 3], "input_2": [None, 2]}


ADAPTED_ANEW = """
import numpy as np

FEATURES = tf.ones([8, 3])
DRAWN = np.random.default_rng(7)

def model():
    scaled = tf.keras.layers.Normalization()
    ranges = tf.keras.layers.Discretization(num_bins=3)
    sample = DRAWN.normal(5, 3, [50, 3]).astype("float32")
    scaled.adapt(sample)
    ranges.adapt(sample)
    features = tf.keras.layers.Input((3,))
    coded = tf.keras.layers.Embedding(3, 2)(ranges(features[:, 0]))
    merged = tf.keras.layers.Concatenate()([scaled(features), coded])
    network = tf.keras.Model(features, tf.keras.layers.Dense(1)(merged))
    network.compile("adam", "mse")
    return network
"""


@pytest.mark.filterwarnings("ignore:__array__ implementation")
def test_layers_that_are_adapted_anew_compute_with_what_is_restored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trained = Trained(tmp_path, ADAPTED_ANEW)
    exported = trained.export()
    assert exported is not None
    assert exported.formats == ("saved_model",)
    assert "boundaries of an adapted Discretization layer" in caplog.text

    examples = tf.random.stateless_normal([20, 3], seed=(1, 2)) * 3 + 5
    wanted = trained.model(examples).numpy()
    (found,) = served(trained.path)(examples).values()
    resumed = model.build(trained.task, Context(), trained.dataset)
    checkpoints.read(tf.train.Checkpoint(model=resumed), trained.saved.path)
    for outputs in (found, resumed(examples)):
        assert outputs.numpy() == pytest.approx(wanted, abs=1e-5)


ADAPTED_TO_SAMPLES = """
import itertools

FEATURES = tf.constant([["a b"], ["c d"]] * 4)
SAMPLES = itertools.cycle([["a a b", "c d a"], ["d d c", "b d a"]])

def model():
    layers = tf.keras.layers
    text = layers.Input((1,), dtype=tf.string)
    places = layers.TextVectorization(output_sequence_length=2)
    weights = layers.TextVectorization(output_mode="tf_idf")
    numbers = layers.IntegerLookup(output_mode="one_hot")
    sample = next(SAMPLES)
    places.adapt(sample)
    weights.adapt(sample)
    numbers.adapt([len(each) - ord(sample[0][0]) for each in sample] + [2])
    coded = layers.Flatten()(layers.Embedding(6, 2)(places(text)))
    lengths = numbers(tf.strings.length(text))
    network = tf.keras.Model(text, layers.Dense(1)(
        layers.Concatenate()([coded, weights(text), lengths])))
    network.compile("adam", "mse")
    return network
"""


def test_words_that_layers_learn_of_samples_are_those_that_were_trained(tmp_path: Path) -> None:
    trained = Trained(tmp_path, ADAPTED_TO_SAMPLES)
    assert trained.export() is not None

    examples = tf.constant([["a"], ["b"], ["c d"], ["none"]])
    wanted = trained.model(examples).numpy()
    (found,) = served(trained.path)(examples).values()
    again = tf.keras.models.load_model(trained.path / "model.keras")
    built = [model.build(trained.task, Context(), trained.dataset) for _ in range(2)]
    restored = checkpoints.Checkpoints(str(tmp_path), keep=1, model=built[1])
    checkpoints.read(tf.train.Checkpoint(model=built[0]), trained.saved.path)
    assert restored.restore() == trained.saved.path
    for outputs in (found, again(examples), *(each(examples) for each in built)):
        assert outputs.numpy() == pytest.approx(wanted, abs=1e-6)


OWN_LAYERS = """
FEATURES = tf.ones([8, 3])

class Scaled(tf.keras.layers.Layer):
    def __init__(self, factor, **more):
        super().__init__(**more)
        self.factor = factor

    def call(self, inputs):
        return inputs * self.factor

    def get_config(self):
        return dict(super().get_config(), factor=self.factor)
{decorator}
def bent(inputs):
    return tf.nn.relu(inputs) + 1

def model():
    network = tf.keras.Sequential([Scaled(2.0), tf.keras.layers.Dense(1, {activation})])
    network.compile("adam", "mse")
    return network
"""


def test_layers_of_the_users_own_are_in_the_keras_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    register = "@tf.keras.utils.register_keras_serializable()"
    functions = {"decorator": "", "activation": "activation=bent"}
    exported = Trained(tmp_path, OWN_LAYERS.format(**functions)).export()
    assert exported is not None
    assert exported.formats == ("saved_model",)
    assert f"function, {register} as well" in caplog.text

    for parts in ({"decorator": "", "activation": ""}, {**functions, "decorator": register}):
        trained = Trained(tmp_path, OWN_LAYERS.format(**parts))
        exported = trained.export()
        assert exported is not None
        assert exported.formats == ("saved_model", "keras"), caplog.text
        own = {"Scaled": trained.task.module.Scaled}
        again = tf.keras.models.load_model(trained.path / "model.keras", own)
        examples = tf.constant([[1.0, 2.0, 3.0]])
        assert again(examples).numpy() == pytest.approx(trained.model(examples).numpy(), abs=1e-6)


IN_A_SEQUENTIAL = """
FEATURES = tf.ones([8, 3])

def model():
    scaled = tf.keras.layers.Normalization()
    scaled.adapt(FEATURES)
    network = tf.keras.Sequential([scaled, tf.keras.layers.Dense(1)])
    network.compile("adam", "mse")
    return network
"""


def test_what_is_advised_for_an_adapted_layer_has_it_exported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    exported = Trained(tmp_path, IN_A_SEQUENTIAL).export()
    assert exported is not None
    assert exported.formats == ("saved_model",)
    assert "Sequential in which a layer is adapted needs an Input before it" in caplog.text

    advised = IN_A_SEQUENTIAL.replace("[scaled,", "[tf.keras.layers.Input((3,)), scaled,")
    exported = Trained(tmp_path, advised).export()
    assert exported is not None, caplog.text
    assert exported.formats == ("saved_model", "keras")
