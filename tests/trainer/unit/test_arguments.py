import pytest
from tftrainer import arguments
from tftrainer.errors import BadConfigurationError


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
        pytest.param(["--task=m", "--epochs=0"], "less than 1", id="no epochs"),
        pytest.param(["--task=m", "--epochs=many"], "many", id="epochs that are no number"),
        pytest.param(["--task=m", "--option=a"], "NAME=VALUE", id="an option without a value"),
        pytest.param(["--task=m", "--epoch=1"], "--epoch", id="a misspelt argument"),
        pytest.param(["--task=m", "--stall-seconds=-1"], "not more than 0", id="negative time"),
    ],
)
def test_bad_arguments_are_refused_with_what_is_wrong(argv: list[str], said: str) -> None:
    with pytest.raises(BadConfigurationError, match=said):
        arguments.parse(argv)


def test_help_names_every_argument_and_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments.parse(["--help"])

    text = capsys.readouterr().out
    assert ended.value.code == 0
    assert "dataset(split, context)" in text
    assert "--checkpoint-seconds" in text
    assert "exit codes" in text
