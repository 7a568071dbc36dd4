"""What a user sees who watches a job beside a scenario, however fast the job is."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from e2e.scenarios.space import Space


@contextmanager
def followed_logs(space: Space, file: Path) -> Iterator[None]:
    """Write what `tftj logs -f mnist` prints to a file; the job has to finish in the block."""
    command = space.tftj_command("logs", "mnist", "-f")
    with _running(command, file, space.environment()) as process:
        yield
        assert process.wait(60) == 0, file.read_text()


@contextmanager
def followed_columns(space: Space, file: Path) -> Iterator[None]:
    """Write what `kubectl get tftj -w` prints to a file, until the end of the block."""
    cluster = space.cluster
    where = ("--kubeconfig", str(cluster.kubeconfig), "-n", space.name)
    with _running([cluster.tool("kubectl"), *where, "get", "tftj", "-w"], file):
        yield


@contextmanager
def _running(
    command: Sequence[str | Path], file: Path, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    with file.open("w") as out:
        process = subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
