"""Puts the operator of this checkout into a cluster and takes it out again, by Helm as users do."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.cluster import Cluster, NoClusterError
from tools.cluster.images import build_images, image_name
from tools.cluster.shell import Say, run

ROOT = Path(__file__).parents[1]
CHART = ROOT / "charts/tftraining-operator"
RELEASE = "tftraining"
NAMESPACE = "tftraining-system"
CRD = "tftrainingjobs.tftraining.dev"
OPERATOR = f"deployment/{RELEASE}-operator"
OPERATOR_PODS = ("-l", "app.kubernetes.io/name=tftraining-operator")
"""By which kubectl selects them."""

_NAMESPACES = """\
apiVersion: v1
kind: Namespace
metadata:
  name: {name}
  labels: {{pod-security.kubernetes.io/enforce: restricted}}
"""


def helm(cluster: Cluster, *arguments: str | Path) -> str:
    """Run helm against the cluster."""
    return run([cluster.tool("helm"), "--kubeconfig", cluster.kubeconfig, *arguments], timeout=300)


def make_namespace(cluster: Cluster, name: str) -> None:
    """Make a namespace that takes only pods of the restricted Pod Security Standard."""
    cluster.kubectl("apply", "-f", "-", text_in=_NAMESPACES.format(name=name))


@contextmanager
def namespaced(cluster: Cluster, name: str, *, wait: bool = False) -> Iterator[None]:
    """Have such a namespace for the time of the block; it is deleted with all that is in it.

    `wait` until all of that is gone.
    """
    try:
        make_namespace(cluster, name)
        yield
    finally:
        waits = f"--wait={str(wait).lower()}"
        cluster.kubectl("delete", "namespace", name, "--ignore-not-found", waits)


def load_images(cluster: Cluster, say: Say) -> None:
    """Build both images and give them to the cluster's nodes."""
    if cluster.given:
        say("your KUBECONFIG's cluster has to have the images, or to be able to pull them")
        return
    for image in build_images(say=say):
        say(f"loading {image}")
        cluster.load(image)


def install(cluster: Cluster, *values: str, chart: Path = CHART) -> None:
    """Install or upgrade the operator and wait until it works."""
    make_namespace(cluster, NAMESPACE)
    wanted = [*values]
    if cluster.engine is not None:
        # The tag is the version's, whatever was built: the pod must change with the image.
        image = cluster.engine.docker(
            "image", "inspect", "--format", "{{.Id}}", image_name("operator")
        )
        wanted.append(f"podAnnotations.image={image.strip()}")
    settings = [word for value in wanted for word in ("--set-string", value)]
    _remove_unfinished(cluster)
    helm(
        cluster,
        *("upgrade", "--install", RELEASE, chart, "--namespace", NAMESPACE),
        *("--wait", "--timeout", "120s", *settings),
    )


def _remove_unfinished(cluster: Cluster) -> None:
    """Take out what an interrupted helm left, which it would not touch; jobs stay."""
    where = ("--namespace", NAMESPACE)
    if helm(cluster, "list", "--short", "--pending", "--filter", f"^{RELEASE}$", *where).strip():
        remove_release(cluster)


def roll_back(cluster: Cluster) -> None:
    """Go back to the revision before, as users do, and wait until it works."""
    helm(cluster, "rollback", RELEASE, "--namespace", NAMESPACE, "--wait", "--timeout", "120s")


def remove_release(cluster: Cluster) -> None:
    """Take out the operator as users do; the CRD stays, and with it all jobs."""
    helm(cluster, "uninstall", RELEASE, "--namespace", NAMESPACE, "--ignore-not-found", "--wait")


def uninstall(cluster: Cluster) -> None:
    """Take out everything that `install` put in, the CRD and with it all jobs included."""
    try:
        remove_release(cluster)
    finally:
        cluster.kubectl("delete", "crd", CRD, "--ignore-not-found")
        cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")


def refuse_existing(cluster: Cluster, *namespaces: str) -> None:
    """Raise NoClusterError if the user's cluster has what a run would replace and then delete.

    `namespaces` are those that the caller makes. In a cluster of ours it is left by a run that was
    interrupted.
    """
    if not cluster.given:
        return
    listed = helm(cluster, "list", "--all-namespaces", "--short", "--filter", f"^{RELEASE}$")
    found = [f"release {name}" for name in listed.split()]
    wanted = [f"crd/{CRD}", *(f"namespace/{name}" for name in (NAMESPACE, *namespaces))]
    found += cluster.kubectl("get", *wanted, "--ignore-not-found", "--output=name").split()
    if found:
        raise NoClusterError(
            f"the cluster of your KUBECONFIG has {', '.join(found)}, which would be replaced and "
            "then deleted with all jobs: set KUBECONFIG to another cluster, or unset it to have "
            "one created; if an interrupted run left them, delete them"
        )


@contextmanager
def installed(cluster: Cluster, say: Say, *namespaces: str) -> Iterator[None]:
    """Have the operator of this checkout in the cluster for the time of the block.

    `namespaces` are those that the caller makes in it. Raises NoClusterError.
    """
    refuse_existing(cluster, *namespaces)
    load_images(cluster, say)
    say("installing the operator with helm")
    try:
        install(cluster)
        yield
    finally:
        uninstall(cluster)
