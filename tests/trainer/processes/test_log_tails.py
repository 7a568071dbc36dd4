"""What the operator reads from the log of an image that writes no termination message."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from harness import ROOT, inherited

OPERATORS_PYTHON = ROOT / ".venv/bin/python"
# The kubelet takes no more of a log.
LAST_BYTES = 2048
READS = "import sys; from tftraining_operator.core.error_text import error_text; \
print(error_text(sys.stdin.read()))"

PROGRAM = """
import sys
import tensorflow as tf


class Mine(tf.keras.layers.Layer):
    def call(self, values):
        if values.shape[-1] == 3:
            raise ValueError("three is too many")
        return values


def broken(values):
    return tf.matmul(values, tf.zeros([7, 7]))


data = tf.zeros([8, 3]), tf.zeros([8, 3])
model = tf.keras.Sequential([Mine() if sys.argv[1] == "raises" else tf.keras.layers.Dense(3)])
model.compile("sgd", "mse")
if sys.argv[1] == "graph":
    tf.function(lambda size: broken(tf.zeros([size, size])))(tf.constant(3))
elif sys.argv[1] == "eager":
    broken(tf.zeros([3, 3]))
else:
    model.fit(*data, verbose=2)
"""


@pytest.mark.skipif(not OPERATORS_PYTHON.exists(), reason="needs .venv: run `make venv`")
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("raises", "ValueError: three is too many"),
        ("graph", "InvalidArgumentError: Matrix size-incompatible: In[0]: [3,3], In[1]: [7,7]"),
        ("eager", "InvalidArgumentError: Matrix size-incompatible: In[0]: [3,3], In[1]: [7,7]"),
    ],
)
def test_the_exception_comes_first_with_the_users_line(tmp_path: Path, how: str, said: str) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    env = {**inherited(), "TF_USE_LEGACY_KERAS": "1"}
    ran = subprocess.run(
        [sys.executable, str(program), how], env=env, capture_output=True, check=False
    )
    assert ran.returncode == 1

    log = ran.stderr[-LAST_BYTES:]
    text = subprocess.run(
        [str(OPERATORS_PYTHON), "-c", READS],
        env={"PYTHONPATH": str(ROOT / "operator")},
        input=log,
        capture_output=True,
        check=True,
    ).stdout.decode()
    first = text.splitlines()[0]
    assert first.startswith(said), json.dumps(log.decode(errors="replace"))
    assert f"({program}, line " in first
