"""A server without most of TensorFlow's Python: what it spares, and that it can do with it all."""

import json
import subprocess
import sys
import textwrap

import pytest
from harness import inherited

LOOK = """
    import json, sys
    from tftrainer import server_library
    from tftrainer.runtime import process
    import os
    process.prepare(os.environ)
    {before}
    library = server_library.load()
    server = library.Server(
        library.ClusterSpec({{"ps": {{0: "localhost:0"}}}}),
        job_name="ps",
        task_index=0,
        protocol="grpc",
        config=library.ConfigProto(inter_op_parallelism_threads=8),
    )
    try:
        library.Server(library.ClusterSpec({{}}), job_name="ps", task_index=0)
    except library.OpError:
        refused = True
    print(json.dumps({{
        "target": server.target,
        "refused": refused,
        "keras": "tf_keras" in sys.modules,
        "whole": hasattr(sys.modules["tensorflow"], "function"),
        "modules": len(sys.modules),
    }}), flush=True)
    os._exit(0)
"""
OF_ANOTHER_VERSION = """
    def gone():
        from tensorflow.python.training.server_lib import NoLongerThere
    server_library._parts = gone
"""


@pytest.mark.parametrize(
    ("before", "more", "whole"),
    [
        pytest.param("", {}, False, id="a server alone"),
        pytest.param("", {"TF_USE_MODULAR_FILESYSTEM": "0"}, True, id="more is asked for"),
        pytest.param(OF_ANOTHER_VERSION, {}, True, id="TensorFlow has other names"),
    ],
)
def test_a_server_imports_no_more_than_it_needs(
    before: str, more: dict[str, str], *, whole: bool
) -> None:
    source = textwrap.dedent(LOOK).format(before=textwrap.dedent(before))
    done = subprocess.run(
        [sys.executable, "-c", source],
        env={**inherited(), **more},
        capture_output=True,
        text=True,
        timeout=150,
        check=True,
    )

    seen = json.loads(done.stdout)
    assert seen["target"].startswith("grpc://localhost:")
    assert seen["refused"]
    assert (seen["whole"], seen["keras"]) == (whole, whole)
    # TensorFlow itself has some 3,000.
    assert whole or seen["modules"] < 500
