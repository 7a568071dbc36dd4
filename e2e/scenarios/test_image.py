"""What the trainer's image holds."""

import json

import pytest

from tools.cluster import Cluster
from tools.cluster.images import TRAINER_LIMIT, image_bytes, image_name

_LOOK = """
import json, os, stat
found = []
for folder, folders, files in os.walk("/"):
    folders[:] = [f for f in folders if os.path.join(folder, f) not in ("/proc", "/sys", "/dev")]
    for name in files:
        path = os.path.join(folder, name)
        mode = os.lstat(path).st_mode
        compiles = name in ("cc", "c++", "gcc", "g++", "clang", "ld", "as", "make", "pip")
        header = name.endswith((".h", ".hpp", ".a")) and stat.S_ISREG(mode)
        rights = stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID)
        if compiles or header or rights:
            found.append(path)
print(json.dumps(found))
"""


def test_the_image_is_small_and_holds_no_compiler_header_or_program_of_more_rights(
    cluster: Cluster,
) -> None:
    if cluster.engine is None:
        pytest.skip("the images of your KUBECONFIG's cluster are not this test's to open")
    image = image_name("trainer")
    looked = cluster.engine.docker(
        *("run", "--rm", "--read-only", "--network=none", "--entrypoint=python3"),
        *(image, "-c", _LOOK),
    )

    assert image_bytes(cluster.engine, image) <= TRAINER_LIMIT
    assert json.loads(looked) == []
