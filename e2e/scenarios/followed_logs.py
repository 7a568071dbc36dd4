"""The logs of a job, followed by `tftj logs -f` as a user does beside a scenario."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.scenarios.space import Space


@contextmanager
def followed(space: Space, file: Path) -> Iterator[None]:
    """Write the logs of mnist to a file; the job has to finish in the block, which ends them."""
    with file.open("w") as out:
        process = subprocess.Popen(
            space.tftj_command("logs", "mnist", "-f"),
            env=space.environment(),
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            yield
            assert process.wait(60) == 0, file.read_text()
        finally:
            process.kill()
            process.wait()
