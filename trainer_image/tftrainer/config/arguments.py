"""Parses the command line, which is the same for every role: the role comes from TF_CONFIG.

Called by __main__ before TensorFlow is imported. Pure.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from tftrainer.errors import BadConfigurationError

DESCRIPTION = """\
Train a plain Keras model, distributed or not. The same command runs in every pod: the role comes
from TF_CONFIG, which the operator sets. Without TF_CONFIG it trains on this computer alone.

The task is a Python module with two functions:
  model()                  returns a tf.keras model
  dataset(split, context)  returns a tf.data.Dataset of (features, labels) batches;
                           split is "train" or "evaluation"
and, optionally:
  train_step(model, batch) runs one step and returns a dict of metrics
  test_step(model, batch)  evaluates one batch and returns a dict of metrics
  callbacks(context)       returns a list of tf.keras.callbacks.Callback
  export(model, path)      writes the trained model to a folder, instead of what --export writes
"""
EPILOG = """\
exit codes: 0 complete, 1 failed, 64 bad configuration, 69 a peer or the network is unavailable,
74 checkpoints cannot be read or written, or are missing, 75 a parameter server was lost, 76 stalled
(no step completed in time), 77 diverged (the loss is NaN or infinite), 143 terminated.
"""


LOCAL_STEPS = 50
"""Steps of mode local between two pushes, unless --local-steps says others."""
NO_VALIDATION = "none"
OF_VALIDATION = "val_"
"""How names of metrics of validation begin, as in Keras."""


class Mode(StrEnum):
    """How the workers of a ParameterServer job train together; see docs/guide/modes.md."""

    ASYNCHRONOUS = "asynchronous"
    SYNCHRONOUS = "synchronous"
    LOCAL = "local"
    FIT = "fit"


class OnNan(StrEnum):
    """What follows when the loss, or a weight, is NaN or infinite."""

    STOP = "stop"
    CONTINUE = "continue"


class FitInput(StrEnum):
    """How the input of Keras fit gets to the workers."""

    DATASET = "dataset"
    CREATOR = "creator"


class ExportFormat(StrEnum):
    """A form in which the trained model is written at the end; see docs/guide/export.md."""

    SAVED_MODEL = "saved_model"
    KERAS = "keras"


@dataclass(frozen=True, slots=True)
class Goal:
    """The metric by which a checkpoint is the best."""

    metric: str
    larger_is_better: bool

    @property
    def needs_validation(self) -> bool:
        """Whether it is a metric of validation."""
        return self.metric.startswith(OF_VALIDATION)

    def is_better(self, value: float, than: float) -> bool:
        """Compare two values of the metric; NaN is never better."""
        return value > than if self.larger_is_better else value < than


@dataclass(frozen=True, slots=True)
class Arguments:
    """The parsed command line."""

    task: str
    epochs: int
    batch_size: int
    steps_per_epoch: int | None
    seed: int | None
    options: dict[str, str]
    mode: Mode
    local_steps: int
    fit_input: FitInput
    partition_bytes: int
    steps_per_closure: int | None
    history: bool
    on_nan: OnNan
    validation: str | None
    """The split to validate on; None if callbacks and --keep-best decide."""
    checkpoint_dir: str | None
    resume_from: str | None
    checkpoint_seconds: float
    keep_checkpoints: int
    keep_best: Goal | None
    export: tuple[ExportFormat, ...]
    peer_timeout: float
    stall_seconds: float
    first_step_seconds: float
    closure_seconds: float
    keep_alive_seconds: float
    log_seconds: float
    grace_seconds: float
    logical_cpus: int


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadConfigurationError(f"{message}; see `python -m tftrainer --help`.")


def parse(argv: Sequence[str]) -> Arguments:
    """Read the command line; raises BadConfigurationError, or SystemExit after --help."""
    values = vars(_parser().parse_args(argv))
    pairs = values.pop("option")
    return Arguments(options=dict(pairs), **values)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m tftrainer",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument_group("what to train").add_argument
    add("--task", required=True, metavar="MODULE|FILE.py", help="defines model() and dataset()")
    add("--epochs", type=_count, default=1, metavar="N", help="passes over the data (default 1)")
    add(
        "--batch-size",
        type=_count,
        default=64,
        metavar="N",
        help="examples per replica per step (default 64)",
    )
    add(
        "--steps-per-epoch",
        type=_count,
        metavar="N",
        help="batches per epoch; required only if the dataset has no known length",
    )
    add("--seed", type=_seed, metavar="N", help="seed for initial weights and shuffling")
    add(
        "--option",
        action="append",
        type=_pair,
        default=[],
        metavar="NAME=VALUE",
        help="passed to the task in context.options; may be repeated",
    )
    add(
        "--history",
        action="store_true",
        help="write the loss of every step to history.csv, in full precision",
    )
    add(
        "--on-nan",
        type=_one_of(OnNan),
        default=OnNan.STOP,
        metavar="{stop,continue}",
        help="when the loss or a weight is NaN or infinite: stop (default) exits with 77, with the "
        "last finite checkpoint kept; continue trains on, without saving weights that are not "
        "finite",
    )
    add(
        "--validation",
        metavar="SPLIT|none",
        help="evaluate dataset(SPLIT, context) at the end of each epoch and give the result to "
        "callbacks, as val_loss and so on; by default the split evaluation, if a callback monitors "
        "val_... or --keep-best asks for it; none: never",
    )
    _add_modes(parser)
    add = parser.add_argument_group("checkpoints").add_argument
    add(
        "--checkpoint-dir",
        metavar="DIR",
        help="where to store checkpoints (default $TFTRAINING_CHECKPOINT_DIR, or the directory of "
        "the job's name in it if another job already uses that volume)",
    )
    add(
        "--resume-from",
        metavar="DIR|CHECKPOINT",
        help="start from a checkpoint of an earlier training, steps and optimizer included, while "
        "the checkpoint directory has none (default $TFTRAINING_RESUME_FROM)",
    )
    add(
        "--checkpoint-seconds",
        type=_seconds,
        default=30.0,
        metavar="S",
        help="minimum time between two checkpoints (default 30)",
    )
    add(
        "--keep-checkpoints",
        type=_count,
        default=3,
        metavar="N",
        help="number of checkpoints to keep (default 3)",
    )
    add(
        "--keep-best",
        type=_goal,
        metavar="METRIC[:min|max]",
        help="keep the best checkpoint of all ends of epochs, by a metric such as val_loss, in the "
        "folder best, and export it as well; add :min or :max to a name that ends neither in loss "
        "nor in accuracy",
    )
    add(
        "--export",
        type=_formats,
        default=tuple(ExportFormat),
        metavar="{saved_model,keras|none}",
        help="formats to export the trained model in, at the end, to the folder export in the "
        "checkpoint directory (default saved_model,keras)",
    )
    add = parser.add_argument_group("timeouts and intervals").add_argument
    add(
        "--peer-timeout",
        type=_seconds,
        default=3600.0,
        metavar="S",
        help="time to wait for the other tasks at startup (default 3600)",
    )
    add(
        "--stall-seconds",
        type=_seconds,
        default=120.0,
        metavar="S",
        help="exit with 76 if no step completes for this long (default 120)",
    )
    add(
        "--first-step-seconds",
        type=_seconds,
        default=600.0,
        metavar="S",
        help="the same for the first step, which includes tracing, and for saving a checkpoint "
        "(default 600)",
    )
    add(
        "--grace-seconds",
        type=_seconds,
        default=20.0,
        metavar="S",
        help="time to save a checkpoint after SIGTERM; must be less than the pod's "
        "terminationGracePeriodSeconds (default 20)",
    )
    add(
        "--closure-seconds",
        type=_closure_seconds,
        default=1.0,
        metavar="S",
        help="target duration of one scheduled function; must be under 60 (default 1)",
    )
    add(
        "--keep-alive-seconds",
        type=_seconds,
        # A chief sends no keepalives while it connects, either: up to 35 s if one of the servers
        # is still giving up calls to a ps that was lost.
        default=60.0,
        metavar="S",
        help="how long workers and parameter servers keep the variables of a chief that no longer "
        "responds (default 60)",
    )
    add(
        "--log-seconds",
        type=_seconds,
        default=10.0,
        metavar="S",
        help="time between two progress lines in the log (default 10)",
    )
    add(
        "--logical-cpus",
        type=_count,
        default=1,
        metavar="N",
        help="split the CPU into N logical devices, to try several GPUs in a process without them "
        "(default 1)",
    )
    return parser


def _add_modes(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("ParameterServer").add_argument
    add(
        "--mode",
        type=_one_of(Mode),
        default=Mode.ASYNCHRONOUS,
        metavar="{asynchronous,synchronous,local,fit}",
        help="asynchronous (default): each worker updates the variables on its own, with gradients "
        "that may be a few steps old; synchronous: every step averages the gradients of all "
        "workers, as one process with their combined batch would; local: each worker trains on "
        "a copy of the variables and periodically pushes the changes, which is faster but a "
        "different algorithm; fit: asynchronous, with Keras model.fit",
    )
    add(
        "--local-steps",
        type=_count,
        default=LOCAL_STEPS,
        metavar="N",
        help=f"mode local: steps between two pushes (default {LOCAL_STEPS})",
    )
    add(
        "--fit-input",
        type=_one_of(FitInput),
        default=FitInput.CREATOR,
        metavar="{dataset,creator}",
        help="mode fit: have a function make the dataset on each worker, as a DatasetCreator "
        "does, or copy the graph of a tf.data.Dataset to them (default creator)",
    )
    add(
        "--partition-bytes",
        type=_natural,
        default=0,
        metavar="N",
        help="split variables of more than this many bytes across the parameter servers, into at "
        "most one part for each (default 0: do not split)",
    )
    add(
        "--steps-per-closure",
        type=_count,
        metavar="N",
        help="steps per scheduled function; by default chosen to meet --closure-seconds",
    )


def _one_of(known: type[StrEnum]) -> Callable[[str], StrEnum]:
    def convert(text: str) -> StrEnum:
        try:
            return known(text)
        except ValueError:
            names = ", ".join(known)
            raise argparse.ArgumentTypeError(
                f"invalid value {text!r}; choose from {names}"
            ) from None

    return convert


def _formats(text: str) -> tuple[ExportFormat, ...]:
    """Read `saved_model,keras`, or `none`; the order is always that of ExportFormat."""
    if text == "none":
        return ()
    convert = _one_of(ExportFormat)
    wanted = {convert(each.strip()) for each in text.split(",")}
    return tuple(each for each in ExportFormat if each in wanted)


def _goal(text: str) -> Goal:
    metric, _, direction = text.partition(":")
    if not direction:
        direction = next((way for ending, way in _WAYS.items() if metric.endswith(ending)), "")
    if not metric or direction not in ("min", "max"):
        raise argparse.ArgumentTypeError(
            f"{text!r} does not say which values are better: add :min or :max, such as val_mae:min"
        )
    return Goal(metric, larger_is_better=direction == "max")


_WAYS = {"loss": "min", "accuracy": "max"}


def _count(text: str) -> int:
    return _at_least(1, text)


def _natural(text: str) -> int:
    return _at_least(0, text)


def _seed(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    # Keras seeds NumPy with it too, which takes no larger one.
    if not 0 <= value <= _LARGEST_SEED:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 0 to {_LARGEST_SEED}")
    return value


_LARGEST_SEED = 2**32 - 1


def _at_least(least: int, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of at least {least}")
    return value


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    # Python's own waiting takes no infinity, and little more than this.
    if not 0 < value <= _LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a positive number of seconds, of at most {_LONGEST_SECONDS}"
        )
    return value


_LONGEST_SECONDS = 10**9


def _closure_seconds(text: str) -> float:
    value = _seconds(text)
    if value >= _CALL_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not less than {_CALL_SECONDS} seconds, after which gRPC gives a call up"
        )
    return value


_CALL_SECONDS = 60


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value
