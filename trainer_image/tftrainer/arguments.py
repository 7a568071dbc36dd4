"""The command line: one for every role, since the role itself comes from TF_CONFIG. Pure."""

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
and, if wanted:
  train_step(model, batch) makes one step, returns a dict of metrics
  callbacks(context)       returns a list of tf.keras.callbacks.Callback
"""
EPILOG = """\
exit codes: 0 complete, 1 failed, 64 bad configuration, 69 a peer does not answer, 74 checkpoints
cannot be read or written, or are missing, 75 a parameter server was lost, 76 no step was made,
143 terminated.
"""


class Mode(StrEnum):
    """How the workers of a ParameterServer job learn together; docs/guide/modes.md."""

    ASYNCHRONOUS = "asynchronous"
    SYNCHRONOUS = "synchronous"
    LOCAL = "local"
    FIT = "fit"


class FitInput(StrEnum):
    """What Keras fit is handed under ParameterServer."""

    DATASET = "dataset"
    CREATOR = "creator"


@dataclass(frozen=True, slots=True)
class Arguments:
    """What the user asked for."""

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
    checkpoint_dir: str | None
    checkpoint_seconds: float
    keep_checkpoints: int
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
        raise BadConfigurationError(f"{message}; `python -m tftrainer --help` lists the arguments.")


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
    add("--task", required=True, metavar="MODULE|FILE.py", help="where model and dataset are")
    add("--epochs", type=_count, default=1, metavar="N", help="passes over the data (1)")
    add(
        "--batch-size",
        type=_count,
        default=64,
        metavar="N",
        help="examples a replica and step (64)",
    )
    add(
        "--steps-per-epoch",
        type=_count,
        metavar="N",
        help="batches that make an epoch; needed only where the dataset has no length",
    )
    add("--seed", type=_natural, metavar="N", help="seed of initial weights, and of shuffling")
    add(
        "--option",
        action="append",
        type=_pair,
        default=[],
        metavar="NAME=VALUE",
        help="handed to the task as context.options; may be repeated",
    )
    add("--history", action="store_true", help="write every step's loss to history.csv, exactly")
    _add_modes(parser)
    add = parser.add_argument_group("checkpoints").add_argument
    add("--checkpoint-dir", metavar="DIR", help="where to keep them ($TFTRAINING_CHECKPOINT_DIR)")
    add(
        "--checkpoint-seconds",
        type=_seconds,
        default=30.0,
        metavar="S",
        help="least time between two (30)",
    )
    add("--keep-checkpoints", type=_count, default=3, metavar="N", help="how many stay (3)")
    add = parser.add_argument_group("patience").add_argument
    add(
        "--peer-timeout",
        type=_seconds,
        default=3600.0,
        metavar="S",
        help="how long to wait for the other tasks at the start (3600)",
    )
    add(
        "--stall-seconds",
        type=_seconds,
        default=120.0,
        metavar="S",
        help="exit 76 after this long without a step (120)",
    )
    add(
        "--first-step-seconds",
        type=_seconds,
        default=600.0,
        metavar="S",
        help="the same for the first step, which includes connecting and tracing (600)",
    )
    add(
        "--grace-seconds",
        type=_seconds,
        default=20.0,
        metavar="S",
        help="time to save a checkpoint after SIGTERM; less than the pod's own grace (20)",
    )
    add(
        "--closure-seconds",
        type=_seconds,
        default=1.0,
        metavar="S",
        help="how long a worker computes between two words with the chief (1; under 60)",
    )
    add(
        "--keep-alive-seconds",
        type=_seconds,
        # Servers do not hear of a chief while it connects, either: that takes up to 35 s if one of
        # them still gives up calls to a ps that was lost.
        default=60.0,
        metavar="S",
        help="how long workers and ps keep the variables of a chief that they do not hear of (60)",
    )
    add("--log-seconds", type=_seconds, default=10.0, metavar="S", help="between two lines (10)")
    add(
        "--logical-cpus",
        type=_count,
        default=1,
        metavar="N",
        help="split the CPU into N devices, to try Mirrored without GPUs (1)",
    )
    return parser


def _add_modes(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("ParameterServer").add_argument
    add(
        "--mode",
        type=_one_of(Mode),
        default=Mode.ASYNCHRONOUS,
        metavar="{asynchronous,synchronous,local,fit}",
        help="asynchronous (default): each worker updates the variables as it goes, with gradients "
        "that may be some steps old; synchronous: every step averages the gradients of all "
        "workers, as one process with their batches together would; local: a worker trains on "
        "a copy of its own and pushes what it learned, fast and another algorithm; fit: "
        "asynchronous, by Keras's own model.fit",
    )
    add(
        "--local-steps",
        type=_count,
        default=50,
        metavar="N",
        help="mode local: steps that a worker makes before it pushes (50)",
    )
    add(
        "--fit-input",
        type=_one_of(FitInput),
        default=FitInput.CREATOR,
        metavar="{dataset,creator}",
        help="mode fit: hand it a tf.data.Dataset or a DatasetCreator (creator)",
    )
    add(
        "--partition-bytes",
        type=_natural,
        default=0,
        metavar="N",
        help="spread a variable over the ps in parts of at least so many bytes (0: never)",
    )
    add(
        "--steps-per-closure",
        type=_count,
        metavar="N",
        help="steps of one scheduled function; chosen by time if not given, see --closure-seconds",
    )


def _one_of(known: type[StrEnum]) -> Callable[[str], StrEnum]:
    def convert(text: str) -> StrEnum:
        try:
            return known(text)
        except ValueError:
            names = ", ".join(known)
            raise argparse.ArgumentTypeError(f"{text!r} is none of {names}") from None

    return convert


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


def _natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is less than 0")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text} is not more than 0")
    return value


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value
