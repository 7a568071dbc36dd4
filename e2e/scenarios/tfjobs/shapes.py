"""The shapes of TFJobs that people have, and how each should end here."""

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "shapes"
SUCCEEDED = "Succeeded"
KUEUE, GPUS = "Kueue", "GPUs"


@dataclass(frozen=True, slots=True)
class Shape:
    """A file with one TFJob or several."""

    name: str
    """That of its file in `shapes/`, without .yaml."""
    what: str
    """What is special about it, for the page: a noun phrase in Markdown."""
    end: str = SUCCEEDED
    """STATE of `kubectl get tftj` in the end; "" if it cannot be converted."""
    words: str = ""
    """What the report, or the message of a job that fails, has to say."""
    needs: str = ""
    """What it needs of the cluster, if that is not on every one: KUEUE or GPUS."""
    not_run: str = ""
    """Why it is validated only."""

    @property
    def path(self) -> Path:
        """The file."""
        return FOLDER / f"{self.name}.yaml"


ALL = (
    Shape("chief-ps-worker", "Chief, PS and Worker with a template each; the tutorial's script"),
    Shape("entry-point", "the same with the image's own entry point: that of the trainer"),
    Shape("one-worker", "one Worker: one process"),
    Shape("workers", "Workers only: MultiWorkerMirroredStrategy", words="worker 0 is the chief"),
    Shape(
        "ps-without-chief",
        "PS and Worker without a Chief: TensorFlow 1",
        end="",
        words="train between graphs",
    ),
    Shape("master", "Master instead of Chief", words="looks for master"),
    Shape(
        "evaluator",
        "Evaluator beside Chief, Worker and PS, with checkpoints on a claim",
        words="the chief does not wait for it",
    ),
    Shape(
        "restart-policies",
        "`restartPolicy` Always, OnFailure and ExitCode; the Chief fails once",
        words="is not run again",
    ),
    Shape(
        "exit-code",
        "`restartPolicy: ExitCode`; the Worker exits with 138 once",
        words="64, 77, 126 and 127 are permanent",
    ),
    Shape("never", "`restartPolicy: Never`; the Chief exits with 3", end="Failed", words="3"),
    Shape("all-workers", "`successPolicy: AllWorkers`", words="the chief alone decides"),
    Shape(
        "run-policy",
        "all of `runPolicy`; suspended, so it was resumed by `tftj resume`",
        words="scheduleTimeoutSeconds",
    ),
    Shape(
        "deadline",
        "`activeDeadlineSeconds: 10` of a job that never ends",
        end="Failed",
        words="activeDeadlineSeconds",
    ),
    Shape(
        "volcano",
        "`schedulingPolicy` with a queue of Volcano",
        words="all pods",
        not_run="Volcano is not there",
    ),
    Shape("kueue", "a label for a queue of Kueue", words="queue", needs=KUEUE),
    Shape("dynamic-worker", "`enableDynamicWorker`", words="can always change"),
    Shape("port", "`tfjob-port` is 5000", words="5000 is 2222"),
    Shape(
        "templates",
        "init container, sidecar, claim, Secret, `fieldRef`, `nodeSelector`, tolerations,"
        " `imagePullSecrets`",
    ),
    Shape("host-network", "`hostNetwork`", words="port 2222"),
    Shape("gpus", "GPUs, which a device plugin offers", needs=GPUS),
    Shape("generate-name", "`generateName`, with `kubectl create`"),
    Shape("several", "two TFJobs and a ConfigMap in one file"),
    Shape("list", "a List"),
    Shape("unknown-fields", "unknown fields, and one of the first builds", words="unknown field"),
    Shape("v1beta2", "`kubeflow.org/v1beta2`", end="", words="read it back"),
    Shape("v1alpha2", "`kubeflow.org/v1alpha2`", end="", words="read it back"),
)
BY_NAME = {shape.name: shape for shape in ALL}
