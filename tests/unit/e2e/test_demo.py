"""What `make demo` draws and says, without a cluster."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e import demo
from e2e.curve import curve
from e2e.demo import points
from tools.cluster import Cluster, ClusterError, first_build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def test_a_curve_falls_from_its_highest_to_its_lowest_value() -> None:
    lines = curve([(0, 2.0), (50, 1.0), (100, 0.0)], width=10, height=4)
    assert lines == [
        "2 │█▅▁",
        "  │███▆▂",
        "  │█████▇▃",
        "0 │████████▄▁",
        "   step 0 step 100",
    ]


def test_a_value_that_stays_is_a_line_and_one_alone_is_nothing() -> None:
    assert curve([(0, 1.0), (9, 1.0)], width=4, height=2) == ["1 │", "1 │████", "   step 0 step 9"]
    assert curve([(3, 1.0)]) == []


def test_the_points_are_what_the_watch_wrote_each_step_once() -> None:
    written = " \n10 2.5\n10 2.4\n\n30 \n40 0.5\n"
    assert points(written) == [(10, 2.4), (40, 0.5)]


RUNNER = """
import contextlib, signal, time
from e2e import demo
# Ignored where nohup runs these tests.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

@contextlib.contextmanager
def obtain(**_):
    try:
        print("begun", flush=True)
        time.sleep(60)
        yield
    finally:
        time.sleep(0.3)
        print("cleaned up", flush=True)

demo.obtain = obtain
demo.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_demo_that_is_asked_to_end_cleans_up(number: signal.Signals) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER], stdout=pipe, stderr=pipe, text=True
    ) as demo:
        assert demo.stdout is not None
        assert demo.stdout.readline() == "begun\n"
        demo.send_signal(number)
        # The kernel sends SIGHUP, and so does the shell.
        demo.send_signal(signal.SIGHUP if number == signal.SIGHUP else 0)
        rest, _ = demo.communicate(timeout=20)

    assert rest == "cleaned up\n"
    assert demo.returncode


def test_a_demo_that_waited_for_another_one_keeps_its_own_results_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Both run in one checkout: what the first keeps is not deleted under it, nor mixed in."""
    kept, first = tmp_path / "kept", list[bool]()
    (kept / "local").mkdir(parents=True)

    @contextmanager
    def obtain(*, start: Callable[..., Cluster], **_: object) -> Iterator[Cluster]:
        first.append((kept / "local").exists())
        (kept / "logs").mkdir()
        yield start("mine", say=print, workers=0)

    def train(_: Cluster) -> bool:
        return not kept.exists()

    cluster = Cluster("mine", tmp_path / "kubeconfig")
    monkeypatch.setattr(demo, "KEPT", kept)
    monkeypatch.setattr(demo, "obtain", obtain)
    monkeypatch.setattr(first_build, "start", lambda *_, **__: cluster)
    monkeypatch.setattr(demo, "installed", lambda *_: nullcontext())
    monkeypatch.setattr(demo, "_train", train)

    assert demo.main() == 0
    assert first == [True]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        pytest.param(
            {"state": "ImagePullBackOff", "message": "image trainer:1 cannot be pulled [/x]"},
            "state       ImagePullBackOff after 0 s: image trainer:1 cannot be pulled [/x]",
            id="no container ever ran",
        ),
        pytest.param(None, "state       None after 0 s: None", id="no operator looked at it"),
    ],
)
def test_the_jobs_own_words_stand_at_the_end_though_nothing_can_be_kept(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    status: dict[str, str] | None,
    said: str,
) -> None:
    def keep(*_: object) -> None:
        raise ClusterError("container tensorflow is waiting to start")

    monkeypatch.setattr(Cluster, "kubectl", lambda *_, **__: "Events:")
    monkeypatch.setattr(demo, "_watch", lambda _: ({"status": status} if status else {}, []))
    monkeypatch.setattr(demo, "_keep", keep)

    assert not demo._train(Cluster("given", Path("kubeconfig"), given=True))

    printed = capsys.readouterr().out
    assert "container tensorflow is waiting to start" in printed
    assert said in printed
    assert ".demo" not in printed, "nothing is there"


def test_who_reads_the_checkpoints_may_first_pull_the_image(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It may run on another node than the training did; kubectl itself waits for 30 s."""
    waited = list[str]()

    def kubectl(_: Cluster, *words: str, **__: object) -> str:
        if "wait" in words:
            waited.extend(words)
            raise ClusterError("enough")
        return ""

    monkeypatch.setattr(demo, "KEPT", tmp_path)
    monkeypatch.setattr(Cluster, "kubectl", kubectl)

    with pytest.raises(ClusterError, match="enough"):
        demo._keep(Cluster("given", tmp_path / "kubeconfig", given=True), {})

    assert "--timeout=300s" in waited
