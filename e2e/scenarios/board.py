"""The TensorBoard of a job, as a user gets it."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.scenarios.space import Space
from tools.ports import free_port


@contextmanager
def board(space: Space, job: str = "mnist") -> Iterator[str]:
    """Run `tftj tensorboard` and yield its address; end it by Ctrl-C."""
    port = free_port()
    command = space.tftj_command("tensorboard", job, f"--port={port}")
    with subprocess.Popen(
        command, env=space.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            yield f"http://127.0.0.1:{port}"
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=60)
            assert process.returncode == 0, said.decode()
        except AssertionError as error:
            process.terminate()
            error.add_note(process.communicate(timeout=60)[0].decode())
            raise
        finally:
            process.kill()
