"""What an exception of the user's code looks like in the termination message."""

from pathlib import Path

import pytest
from tftrainer.runtime.exception_text import summary

PYTHON = "/opt/venv/lib/python3.11"
OF_TENSORFLOW = f"""\
  File "{PYTHON}/site-packages/tensorflow/python/ops/script_ops.py", line 267, in call
    return func(device, token, args)
"""
RAISED_ON_A_WORKER = f"""Graph execution error:

Detected at node EagerPyFunc defined at (most recent call last):
<stack traces unavailable>
ValueError: row 2 is broken
Traceback (most recent call last):

{OF_TENSORFLOW}
  File "/task/task.py", line 4, in rows
    raise ValueError("row 2 is broken")

ValueError: row 2 is broken


\t [[{{{{node EagerPyFunc}}}}]]
\t [[while/body/_1/while/IteratorGetNext]]
Additional GRPC error information from remote target /job:worker/replica:0/task:1:
:{{"created":"@1795335240.073334","file_line":{{seconds}}}} [Op:__inference_call_887]"""
IN_A_MAP = f"""{{{{function_node __wrapped__IteratorGetNext_device_}}}} Error in a function \
passed to MapDataset:7 transformation with iterator: Root::Map: KeyError: 'nope'
Traceback (most recent call last):

{OF_TENSORFLOW}
  File "/task/task.py", line 6, in mapped
    raise KeyError("nope")

KeyError: 'nope'


\t [[{{{{node EagerPyFunc}}}}]] [Op:IteratorGetNext] name: """
ASSERTION = """Graph execution error:

Detected at node assert_less/Assert defined at (most recent call last):
  File "/usr/lib/python3.11/threading.py", line 1002, in _bootstrap

  File "/task/task.py", line 8, in train_step

assertion failed: [x is not negative] [Condition x < y did not hold]
\t [[{node assert_less/Assert}]] [Op:__inference_step_155]"""
WHILE_TRACED = """in user code:

    File "/task/task.py", line 12, in train_step  *
        raise ValueError("traced badly")

    ValueError: traced badly
"""
IN_A_LAYER = """Exception encountered when calling layer 'conv' (type Conv1D).

One of the dimensions in the output is <= 0 due to downsampling in conv1d.

Call arguments received by layer 'conv' (type Conv1D):
  • inputs=tf.Tensor(shape=(1, 1, 8), dtype=float32)"""
IN_A_LAYER_WHILE_TRACED = """in user code:

    File "/opt/venv/lib/python3.11/site-packages/tf_keras/training.py", line 1, in step  *
        y_pred = self(x, training=True)
    File "/tmp/__autograph_generated_file1.py", line 9, in tf__call

    ValueError: Exception encountered when calling layer 'mine' (type Mine).

    in user code:

        File "/task/task.py", line 7, in call  *
            raise ValueError("no such kind:\\nred")

        ValueError: no such kind:
        red


    Call arguments received by layer 'mine' (type Mine):
      • inputs=tf.Tensor(shape=(None, 2), dtype=float32)
"""
MATRICES_IN_A_LAYER = (
    "Exception encountered when calling layer 'dense' (type Dense).\n\n"
    "{{function_node __wrapped__MatMul_device_/job:localhost}} Matrix size-incompatible: "
    "In[0]: [1,2], In[1]: [3,4] [Op:MatMul] name: \n\n"
    "Call arguments received by layer 'dense' (type Dense):\n  • inputs=tf.Tensor()"
)
IN_A_MAP_OF_A_GRAPH = """2 root error(s) found.
  (0) INVALID_ARGUMENT:  Error in user-defined function passed to MapDataset:5 transformation with \
iterator: Iterator::Root::Prefetch::ForeverRepeat[0]::ParallelMapV2: assertion failed: [x] [300]
\t [[{{node assert_less/Assert}}]]
"""
NODE = "{{function_node __wrapped__MatMul_device_/job:ps}} Matrix size-incompatible [Op:__f_12]"


class OfTensorFlow(Exception):  # noqa: N818 -- in the place of tf.errors.OpError
    pass


OfTensorFlow.__module__ = "tensorflow.python.framework.errors_impl"
OfTensorFlow.__name__ = "InvalidArgumentError"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(
            OfTensorFlow(RAISED_ON_A_WORKER.replace("{seconds}", "1")),
            "ValueError: row 2 is broken (/task/task.py, line 4)",
            id="raised by a generator on a worker",
        ),
        pytest.param(
            OfTensorFlow(IN_A_MAP),
            "KeyError: 'nope' (/task/task.py, line 6)",
            id="raised by a function of a dataset's map",
        ),
        pytest.param(
            OfTensorFlow(ASSERTION),
            "InvalidArgumentError: assertion failed: [x is not negative] "
            "[Condition x < y did not hold] (/task/task.py, line 8)",
            id="an assertion in the graph",
        ),
        pytest.param(
            ValueError(WHILE_TRACED),
            "ValueError: traced badly (/task/task.py, line 12)",
            id="raised while a step is traced",
        ),
        pytest.param(
            ValueError(IN_A_LAYER),
            "ValueError: One of the dimensions in the output is <= 0 due to downsampling in "
            "conv1d. (in layer 'conv' (type Conv1D))",
            id="raised by a layer of Keras's",
        ),
        pytest.param(
            ValueError(IN_A_LAYER_WHILE_TRACED),
            "ValueError: no such kind:\nred (in layer 'mine' (type Mine)) (/task/task.py, line 7)",
            id="raised by the user's layer while a step is traced",
        ),
        pytest.param(
            OfTensorFlow(MATRICES_IN_A_LAYER),
            "InvalidArgumentError: Matrix size-incompatible: In[0]: [1,2], In[1]: [3,4] "
            "(in layer 'dense' (type Dense))",
            id="an operation of a layer",
        ),
        pytest.param(
            OfTensorFlow(IN_A_MAP_OF_A_GRAPH),
            "InvalidArgumentError: assertion failed: [x] [300] "
            "(in the function passed to MapDataset)",
            id="an assertion in a dataset's map, of which TensorFlow keeps no line",
        ),
        pytest.param(
            OfTensorFlow(NODE),
            "InvalidArgumentError: Matrix size-incompatible",
            id="an operation of nobody's line",
        ),
        pytest.param(
            ValueError("no room for <task.Row object at 0x7f31c0a2d590>"),
            "ValueError: no room for <task.Row object>",
            id="an address in memory, which differs every time",
        ),
        pytest.param(RuntimeError(), "RuntimeError: no message", id="nothing said"),
    ],
)
def test_type_and_message_come_first_then_the_line_of_the_user(error: Exception, said: str) -> None:
    assert summary(error) == said


def test_the_same_failure_gives_the_same_text_each_time() -> None:
    texts = {
        summary(
            OfTensorFlow(RAISED_ON_A_WORKER.replace("{seconds}", number).replace("887", number))
        )
        for number in ("1", "22")
    }
    assert len(texts) == 1


def test_the_innermost_line_of_the_users_files_is_named(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text("import json\n\ndef model():\n    return json.loads('{')\n")
    scope: dict = {}
    file = tmp_path / "task.py"
    exec(compile(file.read_text(), str(file), "exec"), scope)  # noqa: S102 -- as an import does
    with pytest.raises(ValueError, match="Expecting") as raised:
        scope["model"]()

    said = summary(raised.value)
    assert said.startswith("JSONDecodeError: Expecting property name")
    assert said.endswith(f" ({file}, line 4)")
