"""A process of the tests that ends just when a test ends it."""

import signal
import socket
import subprocess

from preloaded import Forked


def test_a_signal_to_a_process_whose_end_is_not_told_yet_is_ignored() -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    template, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with template:
        template.send(str(ended.pid).encode())
        process = Forked(ours)
        process.send_signal(signal.SIGKILL)
        template.send(b"-15")
        assert process.wait(timeout=1) == -15
