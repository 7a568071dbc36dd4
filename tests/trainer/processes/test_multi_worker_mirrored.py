"""Two members that make every step together."""

import json
import re
import signal
import textwrap

import coverage
from harness import DIGITS, Computer, LoopbackCluster, Process


def start(here: Computer, *arguments: str, task: str = DIGITS) -> tuple[Process, Process]:
    cluster = LoopbackCluster.of("MultiWorkerMirrored", worker=1)
    shared = {"TFTRAINING_CHECKPOINT_DIR": str(here.folder / "ckpt"), "TFTRAINING_JOB_UID": "u"}
    chief, worker = (
        here.start(role, task, "--batch-size=32", *arguments, env=cluster.env(role, **shared))
        for role in ("chief", "worker")
    )
    return chief, worker


def test_a_gang_stops_together_on_sigterm_and_resumes(here: Computer) -> None:
    chief, worker = start(here, "--epochs=1000")
    document = chief.progress_until(
        lambda d: len(d["workers"]) == 2 and all(w["examplesPerSecond"] > 0 for w in d["workers"]),
        "examples per second of both",
    )
    assert [each["task"] for each in document["workers"]] == ["chief-0", "worker-0"]
    assert document["workers"][0]["inputWait"] is not None
    # Either may be told to end; both have to save at the same step.
    worker.signal(signal.SIGTERM)
    assert (worker.ends(patience=30), chief.ends(patience=30)) == (143, 143)

    # A fast machine has made many epochs by now.
    made = int(chief.last_words.partition("at step ")[2].split()[0])
    epoch = document["totalSteps"] // 1000
    chief, worker = start(here, f"--epochs={made // epoch + 2}")
    assert (chief.ends(), worker.ends()) == (0, 0)
    assert "resumed from checkpoint" in chief.log
    done = json.loads(chief.last_words)
    assert done["step"] == done["totalSteps"]
    assert done["metrics"]["accuracy"] >= 0.95


def test_a_lost_member_ends_the_other_with_69_and_all_resume(here: Computer) -> None:
    chief, worker = start(here, "--epochs=1000", "--checkpoint-seconds=1", "--closure-seconds=0.2")
    saved = chief.progress_until(
        lambda d: d["lastCheckpoint"] is not None and d["lastCheckpoint"]["step"] > 0,
        "a checkpoint",
    )
    worker.kill()

    assert chief.ends(patience=60) == 69
    assert "another member of the cluster was lost" in chief.last_words

    again, _ = start(here, "--epochs=1000")
    resumed = again.progress_until(lambda d: d["resumedStep"] is not None, "the same training")
    assert resumed["resumedStep"] >= saved["lastCheckpoint"]["step"]
    assert again.step_beyond(resumed["resumedStep"])


BUILDS_FOR_EVER = """
    import time
    import tensorflow as tf
    from tftrainer.examples.mnist import dataset

    def model():
        print("building", flush=True)
        while True:
            tf.Variable(0.0)
            time.sleep(0.05)
"""


def test_a_member_lost_while_the_model_is_built_is_not_the_users_mistake(here: Computer) -> None:
    (here.folder / "builds.py").write_text(textwrap.dedent(BUILDS_FOR_EVER))
    chief, worker = start(here, task="--task=builds.py")
    chief.says("building")
    worker.says("building")
    worker.kill()

    assert chief.ends(patience=60) == 69, chief.last_words
    assert "another member of the cluster was lost" in chief.last_words


SLOWER_AND_SHORTER = """
    import gc
    import tensorflow as tf
    from light_digits import dataset, model

    class Slower(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs):
            self.model.optimizer.learning_rate = 1e-3 / (epoch + 2)
            print(f"after epoch {epoch}: {sorted(logs.items())!r}", flush=True)

        def on_train_end(self, logs):
            rate = tf.keras.backend.get_value(self.model.optimizer.learning_rate)
            print(f"rate {rate:.6f}", flush=True)

    def callbacks(context):
        # Each member asks for the end of its own epoch: the first one counts for all.
        plateau = tf.keras.callbacks.ReduceLROnPlateau("val_loss", patience=9)
        return [Slower(), Ends(after=2 if context.input_pipeline == 1 else 5), plateau]

    class Ends(tf.keras.callbacks.Callback):
        def __init__(self, after):
            self.after = after

        def on_epoch_end(self, epoch, logs):
            self.model.stop_training = epoch + 1 == self.after

        def on_train_end(self, logs=None):
            # What is no longer used is collected at once: nothing of it may delay the end.
            gc.set_threshold(1, 1, 1)
"""


def test_callbacks_change_all_members_alike_and_one_ends_all(here: Computer) -> None:
    (here.folder / "mine.py").write_text(textwrap.dedent(SLOWER_AND_SHORTER))
    chief, worker = start(here, "--epochs=9", "--keep-best=val_loss", task="--task=mine.py")

    for each in (chief, worker):
        each.says("training is complete")
    # A strategy that is collected waits for its thread, which sleeps for 30 s at a time.
    assert (chief.ends(patience=8), worker.ends(patience=8)) == (0, 0), chief.log + worker.log
    told = [re.findall(r"^after epoch .*$", p.log, re.MULTILINE) for p in (chief, worker)]
    assert len(told[0]) == 2
    assert told[0] == told[1], "to the last bit"
    assert "'val_loss'" in told[0][0]
    assert f"rate {1e-3 / 3:.6f}" in chief.log
    assert f"rate {1e-3 / 3:.6f}" in worker.log
    done = json.loads(chief.last_words)
    assert (done["phase"], done["step"]) == ("done", done["totalSteps"])
    assert done["lastCheckpoint"]["step"] == done["step"]
    assert done["best"]["step"] in (done["step"] // 2, done["step"])


def test_a_gang_whose_dataset_shards_itself_has_to_say_how_long_an_epoch_is(
    here: Computer,
) -> None:
    members = start(here, "--option=own_order=1", task=coverage.TASK)

    assert [each.ends(patience=60) for each in members] == [64, 64]
    assert "AutoShardPolicy.OFF" in members[0].last_words
    # 1000 examples in batches of 2 * 32.
    assert "set --steps-per-epoch: 32 is a pass" in members[0].last_words


def test_a_gang_whose_dataset_shards_itself_reads_it_anew_at_each_start(here: Computer) -> None:
    slow = ("--option=own_order=1", "--option=shuffle=1000", "--option=sleep=40000")
    arguments = (*slow, "--steps-per-epoch=40", "--closure-seconds=0.2")
    first = start(here, *arguments, task=coverage.TASK)
    first[0].step_beyond(5)
    first[0].signal(signal.SIGTERM)
    assert [each.ends() for each in first] == [143, 143]
    assert "from its beginning" not in first[0].log

    members = start(here, *arguments, task=coverage.TASK)
    assert [each.ends() for each in members] == [0, 0]
    assert "reads the dataset from its beginning" in members[0].log


UNLIKE = """
    import time

    import tensorflow as tf
    from light_digits import dataset, model

    class Slow(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs):
            print(f"told: epoch {epoch} ends, {sorted(logs)}", flush=True)
            time.sleep(5)

    def callbacks(context):
        if context.input_pipeline:
            return []
        return [Slow(), tf.keras.callbacks.EarlyStopping("val_loss", patience=9)]
"""
SLOWLY_WRITTEN = """
    import time

    from light_digits import dataset, model
    from tftrainer.saving import checkpoints

    written = checkpoints.write_state

    def write_state(directory, names):
        # Where the other member writes, it is fast.
        if "tftrainer-" not in directory:
            time.sleep(5)
        written(directory, names)

    checkpoints.write_state = write_state
"""
LIMITS = ("--stall-seconds=3", "--first-step-seconds=60")


def test_the_chief_alone_may_have_callbacks_that_take_longer_than_a_stall(here: Computer) -> None:
    (here.folder / "mine.py").write_text(textwrap.dedent(UNLIKE))
    members = start(here, "--epochs=2", "--steps-per-epoch=10", *LIMITS, task="--task=mine.py")

    assert [each.ends(patience=60) for each in members] == [0, 0], members[0].log + members[1].log
    told = re.findall(r"^told: (.*)$", members[0].log, re.MULTILINE)
    seen = "['accuracy', 'loss', 'val_accuracy', 'val_loss']"
    assert told == [f"epoch {epoch} ends, {seen}" for epoch in range(2)]


def test_the_chiefs_checkpoint_may_take_longer_than_a_stall(here: Computer) -> None:
    (here.folder / "mine.py").write_text(textwrap.dedent(SLOWLY_WRITTEN))
    steps = ("--steps-per-epoch=60", "--steps-per-closure=20", "--checkpoint-seconds=0.1")
    members = start(here, *steps, *LIMITS, task="--task=mine.py")

    assert [each.ends(patience=90) for each in members] == [0, 0], members[1].log


SHARDED = """
    import tensorflow as tf
    from light_digits import model

    def dataset(split, context):
        # 65 and 64 examples, in batches of 64.
        data = tf.zeros([129, 8, 8, 1]), tf.zeros([129], tf.int64)
        data = tf.data.Dataset.from_tensor_slices(data)
        data = data.shard(context.input_pipelines, context.input_pipeline)
        return data.batch(context.batch_size)
"""


def test_members_whose_data_is_not_as_long_are_refused(here: Computer) -> None:
    (here.folder / "mine.py").write_text(textwrap.dedent(SHARDED))
    members = start(here, "--epochs=3", task="--task=mine.py")

    assert [each.ends(patience=60) for each in members] == [64, 64]
    for each in members:
        assert "1 in worker-0, 2 in chief-0" in each.last_words
        assert "shard()" in each.last_words


COUNTING = """
    import tensorflow as tf
    from tensorflow.python.data.experimental.ops import testing

    def model():
        made = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="zeros")])
        made.compile(tf.keras.optimizers.SGD(0.0), "mae", [tf.keras.metrics.FalseNegatives()])
        return made

    def dataset(split, context):
        data = tf.ones([1000, 1]), tf.range(1000)[:, None] > 499
        data = tf.data.Dataset.from_tensor_slices(data).batch(20)
        return data.apply(testing.sleep(50_000))

    class Told(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs):
            print(f"told: {logs['loss']:.3f}, {logs['false_negatives']:.0f}", flush=True)

    def callbacks(context):
        return [Told()]
"""


def test_metrics_of_an_epoch_that_is_resumed_are_of_all_of_it(here: Computer) -> None:
    (here.folder / "mine.py").write_text(textwrap.dedent(COUNTING))
    task = ("--epochs=1", "--closure-seconds=0.2")
    first = start(here, *task, task="--task=mine.py")
    first[0].step_beyond(30)
    first[0].signal(signal.SIGTERM)
    assert [each.ends() for each in first] == [143, 143], first[0].log

    members = start(here, *task, task="--task=mine.py")
    assert [each.ends() for each in members] == [0, 0], members[0].log
    for each in members:
        assert re.findall(r"^told: (.*)$", each.log, re.MULTILINE) == ["0.500, 500"]


ADAPTED = """
    import tensorflow as tf
    from light_digits import dataset

    MEMBER = {}

    def model(context):
        layers = tf.keras.layers
        number = 1.0 + context.input_pipeline
        scaled = layers.Normalization(axis=None)
        scaled.adapt([0.0, 20.0 * number])
        ranges = layers.Discretization(num_bins=2)
        ranges.adapt([[number * each] for each in range(10)])
        words = layers.StringLookup(output_mode="one_hot")
        words.adapt([f"word-{context.input_pipeline}"])
        weighted = layers.TextVectorization(output_mode="tf_idf")
        weighted.adapt(["c a", "b c"] if context.input_pipeline else ["a b", "b c"])
        MEMBER.update(scaled=scaled, ranges=ranges, words=words, weighted=weighted)
        image = layers.Input((8, 8, 1))
        text = tf.strings.as_string(layers.Flatten()(image)[:, :1])
        parts = [scaled(layers.Flatten()(image)), words(text), weighted(text)]
        parts.append(tf.cast(ranges(image[:, 0, :, 0]), tf.float32))
        network = tf.keras.Model(image, layers.Dense(10)(layers.Concatenate()(parts)))
        network.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return network

    class Told(tf.keras.callbacks.Callback):
        def on_train_begin(self, logs):
            layers = MEMBER
            found = [layers["scaled"].mean.numpy().item(), layers["ranges"].bin_boundaries]
            found += [layers["words"].get_vocabulary(), layers["weighted"].get_vocabulary()]
            found.append(layers["weighted"]._lookup_layer.idf_weights.numpy().tolist())
            found.append(layers["weighted"](["a b c"]).numpy().tolist())
            found.append(layers["words"](["word-0", "word-1"]).numpy().tolist())
            print("told:", found, flush=True)

    def callbacks(context):
        return [Told()]
"""


def test_what_layers_of_members_have_adapted_to_unlike_data_is_the_chiefs(here: Computer) -> None:
    (here.folder / "mine.py").write_text(textwrap.dedent(ADAPTED))
    members = start(here, "--steps-per-epoch=4", task="--task=mine.py")

    assert [each.ends() for each in members] == [0, 0], members[0].log + members[1].log
    told = [re.findall(r"^told: (.*)$", each.log, re.MULTILINE) for each in members]
    assert told[0] == told[1]
    assert told[0][0].startswith("[10.0, ")
    assert "worker-0 uses what the chief's layers have learned by adapt()" in members[1].log
