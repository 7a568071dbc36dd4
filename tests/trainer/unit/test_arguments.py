import re

import pytest
from tftrainer.config import arguments, environment
from tftrainer.config.arguments import FitInput, Goal, Mode
from tftrainer.config.job import Job
from tftrainer.errors import BadConfigurationError
from tftrainer.exit_codes import ExitCode

SERVERS = (
    '{"cluster": {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}, '
    '"task": {"type": "chief", "index": 0}}'
)


def test_a_task_alone_is_enough() -> None:
    asked = arguments.parse(["--task=mine"])

    assert (asked.task, asked.epochs, asked.batch_size, asked.options) == ("mine", 1, 64, {})


def test_options_are_pairs_and_may_hold_an_equals_sign() -> None:
    asked = arguments.parse(["--task=mine", "--option", "a=1", "--option=filter=x=y"])

    assert asked.options == {"a": "1", "filter": "x=y"}


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        pytest.param([], "--task", id="no task"),
        pytest.param(["--task=m", "--epochs=0"], "at least 1", id="no epochs"),
        pytest.param(
            ["--task=m", "--epochs=many"],
            "'many' is not an integer",
            id="epochs that are not a number",
        ),
        pytest.param(["--task=m", "--option=a"], "NAME=VALUE", id="an option without a value"),
        pytest.param(["--task=m", "--epoch=1"], "--epoch", id="a misspelt argument"),
        pytest.param(
            ["--task=m", "--mode=sync"], "asynchronous, synchronous, local, fit", id="no such mode"
        ),
        pytest.param(["--task=m", "--local-steps=0"], "at least 1", id="no local steps"),
        pytest.param(["--task=m", "--partition-bytes=-1"], "at least 0", id="negative bytes"),
        pytest.param(["--task=m", "--seed=-1"], "--seed.*from 0 to", id="a negative seed"),
        pytest.param(
            ["--task=m", "--seed=4294967296"],
            "--seed: '4294967296' is not an integer from 0 to 4294967295",
            id="a seed that NumPy does not take",
        ),
        pytest.param(["--task=m", "--keep-best=val_mae"], "add :min or :max", id="no direction"),
        pytest.param(
            ["--task=m", "--keep-best=val_loss:least"], "add :min or :max", id="no such direction"
        ),
        pytest.param(
            ["--task=m", "--export=onnx"], "'onnx'; choose from saved_model, keras", id="no format"
        ),
        pytest.param(
            ["--task=m", "--stall-seconds=-1"], "not a positive number", id="negative time"
        ),
        pytest.param(
            ["--task=m", "--stall-seconds=inf"],
            "--stall-seconds: 'inf' .*of at most 1000000000",
            id="a time without an end, which no clock takes",
        ),
        pytest.param(
            ["--task=m", "--closure-seconds=60"],
            "--closure-seconds: '60' is not less than 60 seconds",
            id="a function that gRPC would cut off",
        ),
        pytest.param(
            ["--task=m", "--first-step-seconds=1e10"], "of at most 1000000000", id="300 years"
        ),
    ],
)
def test_bad_arguments_are_refused_with_what_is_wrong(argv: list[str], said: str) -> None:
    with pytest.raises(BadConfigurationError, match=said):
        arguments.parse(argv)


def test_the_smallest_and_the_largest_seed_are_taken() -> None:
    for seed in (0, 2**32 - 1):
        assert arguments.parse(["--task=m", f"--seed={seed}"]).seed == seed


def test_the_mode_is_asynchronous_unless_another_is_named() -> None:
    plain = arguments.parse(["--task=m"])
    fit = arguments.parse(["--task=m", "--mode=fit", "--fit-input=dataset"])

    assert (plain.mode, plain.local_steps, plain.partition_bytes) == (Mode.ASYNCHRONOUS, 50, 0)
    assert (fit.mode, fit.fit_input) == (Mode.FIT, FitInput.DATASET)


@pytest.mark.parametrize(
    ("argv", "variables", "said"),
    [
        pytest.param(["--mode=local"], {}, "ParameterServer", id="a mode without servers"),
        pytest.param(
            ["--history"], {"TF_CONFIG": SERVERS}, "--mode=synchronous", id="losses of async steps"
        ),
        pytest.param(["--history"], {}, "--checkpoint-dir", id="a history without a place"),
        pytest.param(["--keep-best=loss"], {}, "--checkpoint-dir", id="a best without a place"),
        pytest.param(
            ["--closure-seconds=30", "--stall-seconds=20"],
            {},
            "--closure-seconds=30 must be less than --stall-seconds=20",
            id="several steps at once for longer than a stall takes",
        ),
        pytest.param(
            ["--resume-from=earlier"],
            {},
            "--resume-from requires --checkpoint-dir",
            id="a start from a checkpoint without a place for more",
        ),
        pytest.param(["--validation=test"], {}, "--checkpoint-dir", id="nothing to validate"),
        pytest.param(
            ["--keep-best=val_loss", "--validation=none", "--checkpoint-dir=d"],
            {},
            "remove --validation=none",
            id="a best by what is never measured",
        ),
        pytest.param(
            ["--local-steps=10", "--mode=fit"],
            {"TF_CONFIG": SERVERS},
            "--local-steps has an effect with --mode=local only: set that, or remove --local-steps",
            id="rounds of another mode",
        ),
        pytest.param(
            ["--fit-input=dataset"],
            {"TF_CONFIG": SERVERS},
            "--fit-input has an effect with --mode=fit only",
            id="an input of another mode",
        ),
        pytest.param(
            ["--partition-bytes=1000"],
            {},
            "--partition-bytes has an effect with strategy: ParameterServer only",
            id="parts for servers that are not there",
        ),
    ],
)
def test_arguments_that_would_have_no_effect_are_refused(
    argv: list[str], variables: dict[str, str], said: str
) -> None:
    with pytest.raises(BadConfigurationError, match=said):
        Job(arguments.parse(["--task=m", *argv]), environment.read(variables))


def test_functions_on_workers_are_no_stall_however_long_they_may_be() -> None:
    """Their steps are seen while they run."""
    asked = arguments.parse(["--task=m", "--closure-seconds=30", "--stall-seconds=20"])

    assert Job(asked, environment.read({"TF_CONFIG": SERVERS})).arguments.closure_seconds == 30


@pytest.mark.parametrize(
    ("given", "used"),
    [("gs://models/run/", "gs://models/run"), ("gs://models/run//", "gs://models/run"), ("/", "/")],
)
def test_a_slash_at_the_end_of_a_location_makes_no_other_place(given: str, used: str) -> None:
    for argv, variables in (
        ([f"--checkpoint-dir={given}"], {}),
        ([], {"TFTRAINING_CHECKPOINT_DIR": given}),
    ):
        asked = arguments.parse(["--task=m", *argv])
        assert Job(asked, environment.read(variables)).checkpoint_dir == used


def test_an_evaluator_takes_the_command_line_of_all() -> None:
    alone = '{"cluster": {"evaluator": ["a:1"]}, "task": {"type": "evaluator", "index": 0}}'
    own = ("--mode=synchronous", "--history", "--partition-bytes=1000")
    asked = arguments.parse(["--task=m", "--checkpoint-dir=d", *own])

    for variables in ({"TF_CONFIG": SERVERS}, {"TF_CONFIG": alone}):
        assert Job(asked, environment.read(variables)).arguments.history


def test_help_names_every_argument_and_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments.parse(["--help"])

    text = capsys.readouterr().out
    assert ended.value.code == 0
    assert "dataset(split, context)" in text
    assert "--checkpoint-seconds" in text
    assert "exit codes" in text
    assert "different algorithm" in text


def test_the_help_names_every_exit_code_of_the_trainer() -> None:
    named = {int(code) for code in re.findall(r"\b\d+\b", arguments.EPILOG)}
    assert named == set(ExitCode) - {ExitCode.NOT_EXECUTABLE, ExitCode.NOT_FOUND}


@pytest.mark.parametrize("text", ["stop", "continue"])
def test_what_follows_nan_is_chosen(text: str) -> None:
    assert arguments.parse(["--task=mine", f"--on-nan={text}"]).on_nan == text
    assert arguments.parse(["--task=mine"]).on_nan == "stop"


@pytest.mark.parametrize(
    ("argv", "wanted"),
    [
        pytest.param([], ("saved_model", "keras"), id="both"),
        pytest.param(["--export=keras"], ("keras",), id="one"),
        pytest.param(["--export=keras, saved_model"], ("saved_model", "keras"), id="in any order"),
        pytest.param(["--export=none"], (), id="none"),
    ],
)
def test_formats_of_the_exported_model(argv: list[str], wanted: tuple[str, ...]) -> None:
    assert arguments.parse(["--task=m", *argv]).export == wanted


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        pytest.param("val_loss", Goal("val_loss", larger_is_better=False), id="a loss"),
        pytest.param("accuracy", Goal("accuracy", larger_is_better=True), id="an accuracy"),
        pytest.param("loss:max", Goal("loss", larger_is_better=True), id="as it is said"),
        pytest.param("val_auc:max", Goal("val_auc", larger_is_better=True), id="of any name"),
    ],
)
def test_by_what_the_best_checkpoint_is_chosen(text: str, goal: Goal) -> None:
    assert arguments.parse(["--task=m", f"--keep-best={text}"]).keep_best == goal
