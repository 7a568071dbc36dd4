"""Stands for a training where only processes matter: every task serves at its own address.

The task that decides calls all others by the addresses in TF_CONFIG, and ends when each has
answered. TensorFlow takes half a minute on a small machine to do the same.

    --exits 138,0   it ends with 138 when it runs for the first time, and then with 0
    --seconds 5     all other tasks end by themselves after that time, and not when they are stopped
"""

import argparse
import json
import os
import socket
import threading
import time
from pathlib import Path

_STARTS = Path("/state/starts")
_PATIENCE = 120

parser = argparse.ArgumentParser()
parser.add_argument("--exits", default="0")
parser.add_argument("--seconds", type=float)
given = parser.parse_args()

config = json.loads(os.environ["TF_CONFIG"])
role, index = config["task"]["type"], config["task"]["index"]
cluster = {kind: dict(enumerate(tasks)) for kind, tasks in config["cluster"].items()}
own = cluster[role][index]


def serve() -> None:
    """Answer everybody with the own address."""
    with socket.create_server(("", int(own.rpartition(":")[2]))) as server:
        while True:
            connection, _ = server.accept()
            with connection:
                connection.sendall(own.encode())


def ask(address: str) -> str:
    """Return what the task at an address answers, which may have to start yet."""
    host, _, port = address.rpartition(":")
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=5) as connection:
                return connection.recv(1000).decode()
        except OSError as error:
            if time.monotonic() > end:
                raise SystemExit(f"{address} does not answer: {error}") from error
            time.sleep(0.5)


threading.Thread(target=serve, daemon=True).start()
decides = "chief" if "chief" in cluster else "worker"
if (role, index) != (decides, 0):
    time.sleep(given.seconds or 3600)
    raise SystemExit(0)

for tasks in cluster.values():
    for address in tasks.values():
        if ask(address) != address:
            raise SystemExit(f"another task answers at {address}")
exits = [int(code) for code in given.exits.split(",")]
start = 0
if len(exits) > 1:
    start = int(_STARTS.read_text()) if _STARTS.exists() else 0
    _STARTS.write_text(str(start + 1))
raise SystemExit(exits[min(start, len(exits) - 1)])
