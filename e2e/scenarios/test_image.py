"""What the trainer's image holds, and that its pods get by with what they may do."""

import json

import pytest

from e2e.scenarios.space import Space, job
from tools.cluster import Cluster, ClusterError
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


def test_training_does_with_a_read_only_root_and_no_rights(space: Space) -> None:
    space.apply(job("mnist", "--epochs=20", checkpoint={"emptyDir": {}}))
    space.wait_for("Running")

    for role in ("chief", "worker", "ps"):
        pod = space.read(f"pod/mnist-{role}-0")
        [container] = pod["spec"]["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    with pytest.raises(ClusterError, match="Read-only file system"):
        space.kubectl("exec", "mnist-worker-0", "--", "touch", "/opt/venv/mine")
    assert space.kubectl("exec", "mnist-worker-0", "--", "id", "-u").strip() == "65532"
    space.kubectl("wait", "--for=condition=Finished", "tftj/mnist", "--timeout=240s")
    assert space.status()["state"] == "Succeeded", space.describe()
