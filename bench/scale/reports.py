"""Answers /progress for the pods that kwok plays, by HTTP, as their trainers would.

    python -m bench.scale.reports FILE

FILE has the addresses of evaluators, one a line; every other address of loopback is a chief's. All
trainings go on from when this process began. One answer costs some 50 µs.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from tftraining_operator.api.keys import PROGRESS_PORT

from bench.scale import processes
from tools.ports import free_port

_STEPS_PER_SECOND = 10.0
_TOTAL_STEPS = 36_000
"""An hour: a percent takes 36 s."""
_CHECKPOINT_STEPS = 600
"""A checkpoint each minute, which the evaluator evaluates."""


@contextmanager
def served(folder: Path, evaluators: list[str]) -> Iterator[None]:
    """Answer from when the block begins until it ends. Raises ClusterError if the port is taken."""
    file = folder / "evaluators"
    file.write_text("\n".join(evaluators))
    ready = free_port()
    command: list[str | Path] = [sys.executable, "-m", "bench.scale.reports", file, str(ready)]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    log = folder / "reports.log"
    with processes.running(command, environment, log, f"http://127.0.0.1:{ready}/progress"):
        yield


def training(seconds: float) -> dict[str, Any]:
    """Return what a chief reports that has trained for so long."""
    step = int(seconds * _STEPS_PER_SECOND)
    return {
        "version": 1,
        "role": "chief",
        "attempt": 0,
        "phase": "training",
        "step": step,
        "totalSteps": _TOTAL_STEPS,
        "stepsPerSecond": _STEPS_PER_SECOND,
        "secondsSinceStep": (seconds - step / _STEPS_PER_SECOND),
        "metrics": {"accuracy": 1 - 1 / (2 + step), "loss": 1 / (1 + step)},
        "lastCheckpoint": _checkpoint(step),
    }


def evaluation(seconds: float) -> dict[str, Any]:
    """Return what an evaluator reports at that time."""
    checkpoint = _checkpoint(int(seconds * _STEPS_PER_SECOND))
    step = checkpoint["step"] if checkpoint else 0
    return {
        "version": 1,
        "role": "evaluator",
        "attempt": 0,
        "phase": "evaluating" if checkpoint else "waiting",
        "step": step,
        "metrics": {"loss": 1 / (1 + step)} if checkpoint else {},
        "lastCheckpoint": checkpoint,
    }


def _checkpoint(step: int) -> dict[str, Any] | None:
    saved = step // _CHECKPOINT_STEPS * _CHECKPOINT_STEPS
    if not saved:
        return None
    return {"step": saved, "path": f"/checkpoints/ckpt-{saved}", "time": "2026-01-02T03:04:05Z"}


class _Server(asyncio.Protocol):
    """One connection for one request, which has no body and so ends with an empty line."""

    def __init__(self, began: float, evaluators: frozenset[str]) -> None:
        self._began = began
        self._evaluators = evaluators
        self._text = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        address = transport.get_extra_info("sockname")[0]
        self._report = evaluation if address in self._evaluators else training

    def data_received(self, data: bytes) -> None:
        self._text += data
        if b"\r\n\r\n" in self._text:
            body = json.dumps(self._report(time.monotonic() - self._began)).encode()
            head = (
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            )
            self._transport.write(head.encode() + body)
            self._transport.close()


async def _serve(evaluators: frozenset[str], ready: int) -> None:
    loop, began = asyncio.get_running_loop(), time.monotonic()

    def connection() -> _Server:
        return _Server(began, evaluators)

    pods = await loop.create_server(connection, "0.0.0.0", PROGRESS_PORT)  # noqa: S104 - all of 127/8
    own = await loop.create_server(connection, "127.0.0.1", ready)
    async with pods, own:
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(frozenset(Path(sys.argv[1]).read_text().split()), int(sys.argv[2])))
