"""What a log's end says went wrong: the exception and its place first, TensorFlow's notes never."""

from __future__ import annotations

import time

import pytest
from tftraining_operator.core.error_text import LIMIT, error_text, telling_line

CHATTER = (
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
    "I0000 00:00:1795334728.140965   12961 port.cc:153] oneDNN custom operations are on.\n"
    "2026-11-22 08:00:01.123456: I tensorflow/core/platform/cpu_feature_guard.cc:210] This binary\n"
    "To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow.\n"
    "2026-11-22 08:00:01.5: E external/xla/cuda_dnn.cc:1] Unable to register cuDNN factory\n"
    "W0000 00:00:1795334770.997598   12961 gpu_device.cc:2344] Cannot dlopen some GPU libraries\n"
    "2026-11-22T08:00:02 INFO connected to the cluster\n"
    "2026-11-22 08:00:02,123 INFO root: loading\n"
    "INFO:tensorflow:Using MirroredStrategy\n"
)
TRACEBACK = """\
Traceback (most recent call last):
  File "/app/train.py", line 5, in <module>
    model.fit(x, y)
  File "/usr/local/lib/python3.11/site-packages/keras/src/utils/traceback_utils.py", line 122, in h
    raise e.with_traceback(filtered_tb) from None
"""
TRACED = """\
ValueError: in user code:

    File "/usr/local/lib/python3.11/site-packages/tf_keras/src/training.py", line 1, in fit  *
        return step_function(self, iterator)

    ValueError: Exception encountered when calling layer 'mine' (type Mine).

    in user code:

        File "/app/net.py", line 12, in call  *
            raise ValueError("bad shape")

        ValueError: bad shape


    Call arguments received by layer 'mine' (type Mine):
      • inputs=tf.Tensor(shape=(None, 2), dtype=float32)
"""


@pytest.mark.parametrize(
    ("log", "text"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param(CHATTER, "", id="notes are no cause"),
        pytest.param("no data at gs://b\n", "no data at gs://b", id="a sentence"),
        pytest.param(
            CHATTER + TRACEBACK + "ValueError: Dimensions must be equal\n",
            "ValueError: Dimensions must be equal (/app/train.py, line 5)",
            id="an exception below the notes, with the user's line",
        ),
        pytest.param(
            TRACEBACK + "ValueError: no data\n" + CHATTER,
            "ValueError: no data (/app/train.py, line 5)",
            id="an exception above the notes",
        ),
        pytest.param(
            'rt.py", line 3, in x\n    go()\n'
            '  File "/usr/lib/python3.11/json.py", line 9, in load\n    raise\n'
            "json.decoder.JSONDecodeError: Expecting value",
            "JSONDecodeError: Expecting value",
            id="a traceback whose beginning is cut off names no place",
        ),
        pytest.param(
            TRACEBACK + "AssertionError\n",
            "AssertionError (/app/train.py, line 5)",
            id="an exception without a message",
        ),
        pytest.param(
            TRACEBACK + "During handling of the above exception, another exception occurred:\n\n"
            "Traceback (most recent call last):\n"
            '  File "/app/train.py", line 9, in main\n    save()\n'
            "OSError: disk full",
            "OSError: disk full (/app/train.py, line 9)",
            id="the last of a chain",
        ),
        pytest.param(
            '  File "/app/train.py", line 3\n    foo(\n       ^\n'
            "SyntaxError: '(' was never closed",
            "SyntaxError: '(' was never closed (/app/train.py, line 3)",
            id="a syntax error",
        ),
        pytest.param(
            TRACEBACK + "tensorflow.python.framework.errors_impl.InvalidArgumentError: "
            "Graph execution error:\n\nDetected at node png defined at (most recent call last):\n"
            "<stack traces unavailable>\nInvalid PNG data, size 12\n"
            "\t [[{{node decode_png}}]] [Op:__inference_1]\n",
            "InvalidArgumentError: Invalid PNG data, size 12 (/app/train.py, line 5)",
            id="an error in a graph by its own message",
        ),
        pytest.param(
            TRACEBACK + "tensorflow.python.framework.errors_impl.InvalidArgumentError: "
            "Graph execution error:\n\n"
            "Detected at node MatMul defined at (most recent call last):\n"
            '  File "/app/net.py", line 12, in call\n\n'
            '  File "/usr/lib/python3.11/site-packages/keras/dense.py", line 255, in call\n\n'
            "Matrix size-incompatible: In[0]: [32,784], In[1]: [10,10]\n"
            "\t [[{{node dense/MatMul}}]] [Op:__inference_1]\n",
            "InvalidArgumentError: Matrix size-incompatible: In[0]: [32,784], In[1]: [10,10] "
            "(/app/net.py, line 12)",
            id="one whose message holds the user's line",
        ),
        pytest.param(
            TRACEBACK + TRACED,
            "ValueError: bad shape (/app/net.py, line 12)",
            id="raised while TensorFlow traces the user's code",
        ),
        pytest.param(
            TRACED.partition("\n\n")[2],
            "ValueError: bad shape (/app/net.py, line 12)",
            id="the same, with the beginning cut off",
        ),
        pytest.param(
            TRACEBACK + "ValueError: Exception encountered when calling layer 'conv' "
            "(type Conv1D).\n\nOne of the dimensions is 0.\n\nCall arguments received by layer "
            "'conv' (type Conv1D):\n  • inputs=tf.Tensor(shape=(1, 1, 8))\n",
            "ValueError: One of the dimensions is 0. (/app/train.py, line 5)",
            id="raised in a layer of Keras's",
        ),
        pytest.param(
            TRACEBACK + "ValueError: no data\n"
            "Exception ignored in: <function Server.__del__ at 0x7f31c0a2d590>\n"
            'Traceback (most recent call last):\n  File "/app/server.py", line 9, in __del__\n'
            "AttributeError: 'NoneType' object has no attribute 'stop'\n",
            "ValueError: no data (/app/train.py, line 5)",
            id="before what is raised at exit",
        ),
        pytest.param(
            CHATTER + "F0000 00:00:1795334728.140965   12961 tensor.cc:100] Check failed: "
            "dims == 2 (1 vs. 2)\n*** Check failure stack trace: ***\n    @ 0x7f  absl::Log\n",
            "Check failed: dims == 2 (1 vs. 2) (tensor.cc:100)",
            id="TensorFlow giving up",
        ),
        pytest.param(
            "2026-11-22 08:00:01.5: F tensorflow/core/tensor.cc:733] Check failed: 1 == 2\n"
            "Fatal Python error: Aborted\n\nCurrent thread 0x7f (most recent call first):\n"
            '  File "/usr/lib/python3.11/site-packages/tensorflow/ops.py", line 1 in run\n'
            '  File "/app/net.py", line 3 in call\n  File "/app/train.py", line 9 in main\n\n'
            "Extension modules: numpy.core (total: 90)\n",
            "Check failed: 1 == 2 (tensorflow/core/tensor.cc:733) (/app/net.py, line 3)",
            id="the same, with Python's frames",
        ),
        pytest.param(
            TRACEBACK + "tensorflow.python.framework.errors_impl.InvalidArgumentError: "
            "{{function_node __inference_f_44}} Matrix size-incompatible: In[0]: [3,3]\n"
            "\t [[{{node MatMul}}]] [Op:__inference_f_44]\n",
            "InvalidArgumentError: Matrix size-incompatible: In[0]: [3,3] (/app/train.py, line 5)",
            id="without the names and numbers of nodes",
        ),
        pytest.param(
            f"{CHATTER}\nno data at gs://b\n"[-2048:].rjust(2048, "="),
            "no data at gs://b",
            id="a log whose first line is cut off",
        ),
        pytest.param(
            "ValueError: no data (mnist.py:12)\nUse another split.",
            "ValueError: no data (mnist.py:12)\nUse another split.",
            id="a message that the trainer wrote stays",
        ),
        pytest.param(
            "\x1b[1;31mValueError\x1b[0m: \x1b[35mno data\x1b[0m\x07",
            "ValueError: no data",
            id="colours and bells",
        ),
    ],
)
def test_error_text(log: str, text: str) -> None:
    assert error_text(log) == text


def test_of_a_long_log_the_end_is_kept() -> None:
    text = error_text("x" * 5000 + "\nthe point")
    assert text.endswith("the point")
    assert len(text) == LIMIT


def test_of_a_long_exception_the_beginning_and_the_place_are_kept() -> None:
    text = error_text(TRACEBACK + "ValueError: bad " + "x" * 5000)
    assert text.startswith("ValueError: bad xxx")
    assert text.endswith("… (/app/train.py, line 5)")
    assert len(text) < LIMIT


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param(
            "ValueError: no data (a.py, line 1)\nhint",
            "ValueError: no data (a.py, line 1)",
            id="an exception",
        ),
        pytest.param("fetching\nno such bucket", "fetching no such bucket", id="a short log whole"),
        pytest.param(
            "fetching\n" * 100 + "no such bucket\n\n",
            "no such bucket",
            id="a long log by its last line",
        ),
    ],
)
def test_the_line_that_says_most(text: str, line: str) -> None:
    assert telling_line(text) == line


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("ValueError: x" + " " * 4000 + "b", id="spaces"),
        pytest.param("ValueError: x" + " [" * 2000, id="brackets"),
        pytest.param("a." * 2000 + "Error: x", id="modules"),
        pytest.param("  File " * 600, id="frames"),
    ],
)
def test_no_text_that_a_pod_can_write_takes_long_to_look_through(line: str) -> None:
    texts = [f"{TRACEBACK}{line}{number}"[-4096:] for number in range(50)]
    began = time.process_time()
    for text in texts:
        assert len(error_text(text)) <= LIMIT
    assert time.process_time() - began < 1.0
