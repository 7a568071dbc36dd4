"""What is measured: setups of processes, and the ratios between them that the project promises.

Who runs on which core. A worker has a core for itself but for chief and ps, which get none of
their own: they run on those of the workers, wherever there is time. So two workers have exactly
twice the compute of one, and a job with one worker exactly that of one process.
"""

from dataclasses import dataclass
from pathlib import Path

TASKS = Path(__file__).parent / "tasks"
BATCH = {"cnn": 256, "mlp": 64}


@dataclass(frozen=True, slots=True)
class Setup:
    """A way to train one of the tasks."""

    task: str
    kind: str
    """plain (one process without the trainer), several (one on each core, which know nothing of
    each other), ParameterServer, Mirrored or MultiWorkerMirrored."""
    size: int = 1
    """Cores; under ParameterServer also workers, under MultiWorkerMirrored also members."""
    arguments: tuple[str, ...] = ()
    is_stock: bool = False
    """By model.fit as in TensorFlow's tutorials (stock.py), and not by the trainer."""
    has_image: bool = False
    """Though it is not the trainer, with the variables of its image."""

    @property
    def model(self) -> str:
        """What the task is called in tables."""
        return self.task.upper()

    @property
    def name(self) -> str:
        """What it is called, beside its size."""
        of = [*["stock"] * self.is_stock, *["huge pages"] * self.has_image]
        return " ".join([self.model, self.kind, *self.arguments, *of])

    @property
    def in_image(self) -> bool:
        """Whether its processes have the variables of the trainer's image, as the trainer's do."""
        return self.has_image or not (self.is_stock or self.kind in ("plain", "several"))

    @property
    def batches_a_step(self) -> int:
        """How many batches one step takes: all replicas that step together take theirs."""
        together = self.kind != "ParameterServer" or "--mode=synchronous" in self.arguments
        return self.size if together else 1

    @property
    def batch(self) -> int:
        """Examples of one step of one replica."""
        return BATCH[self.task]


CNN_PLAIN = Setup("cnn", "plain")
CNN_SEVERAL_2 = Setup("cnn", "several", 2)
CNN_SEVERAL_ALIKE_2 = Setup("cnn", "several", 2, has_image=True)
CNN_STOCK_PS_2 = Setup("cnn", "ParameterServer", 2, is_stock=True)
CNN_STOCK_MWMS_2 = Setup("cnn", "MultiWorkerMirrored", 2, is_stock=True)
CNN_PS_1 = Setup("cnn", "ParameterServer")
CNN_PS_2 = Setup("cnn", "ParameterServer", 2)
CNN_SYNCHRONOUS_1 = Setup("cnn", "ParameterServer", 1, ("--mode=synchronous",))
CNN_SYNCHRONOUS_2 = Setup("cnn", "ParameterServer", 2, ("--mode=synchronous",))
CNN_MIRRORED_1 = Setup("cnn", "Mirrored")
CNN_MIRRORED_2 = Setup("cnn", "Mirrored", 2)
CNN_MWMS_1 = Setup("cnn", "MultiWorkerMirrored")
CNN_MWMS_2 = Setup("cnn", "MultiWorkerMirrored", 2)
MLP_PLAIN_2 = Setup("mlp", "plain", 2)
MLP_ONE_STEP = Setup("mlp", "ParameterServer", 2, ("--steps-per-closure=1",))
MLP_MANY_STEPS = Setup("mlp", "ParameterServer", 2)
MLP_LOCAL = Setup("mlp", "ParameterServer", 2, ("--mode=local",))


@dataclass(frozen=True, slots=True)
class Ratio:
    """Two setups compared: examples per second of the one over those of the other."""

    name: str
    what: str
    setup: Setup
    base: Setup
    least: float | None
    """What is promised; None where the figure is only reported."""


RATIOS = (
    Ratio(
        "headline",
        "CNN, ParameterServer asynchronous: 2 workers on 2 cores against 2 plain processes there",
        CNN_PS_2,
        CNN_SEVERAL_2,
        0.90,
    ),
    Ratio(
        "headline-alike",
        "the same, and the plain processes with the variables of the trainer's image",
        CNN_PS_2,
        CNN_SEVERAL_ALIKE_2,
        None,
    ),
    Ratio(
        "stock",
        "CNN, ParameterServer with 2 workers against stock `model.fit` with 2",
        CNN_PS_2,
        CNN_STOCK_PS_2,
        1.0,
    ),
    Ratio(
        "stock-multiworker",
        "CNN, MultiWorkerMirrored with 2 members against stock `model.fit` with 2",
        CNN_MWMS_2,
        CNN_STOCK_MWMS_2,
        1.0,
    ),
    Ratio(
        "scaling",
        "CNN, ParameterServer asynchronous: 2 workers against 1",
        CNN_PS_2,
        CNN_PS_1,
        1.7,
    ),
    Ratio(
        "overhead",
        "CNN, ParameterServer with 1 worker against the plain process on one core",
        CNN_PS_1,
        CNN_PLAIN,
        None,
    ),
    Ratio(
        "synchronous",
        "CNN, ParameterServer synchronous: 2 workers against 1",
        CNN_SYNCHRONOUS_2,
        CNN_SYNCHRONOUS_1,
        1.5,
    ),
    Ratio(
        "mirrored",
        "CNN, Mirrored: 2 logical devices on 2 cores against 1 on 1",
        CNN_MIRRORED_2,
        CNN_MIRRORED_1,
        1.5,
    ),
    Ratio(
        "multiworker",
        "CNN, MultiWorkerMirrored: 2 members against 1",
        CNN_MWMS_2,
        CNN_MWMS_1,
        None,
    ),
    Ratio(
        "closure",
        "MLP, ParameterServer asynchronous with 2 workers: steps by time against 1 a closure",
        MLP_MANY_STEPS,
        MLP_ONE_STEP,
        None,
    ),
    Ratio(
        "local",
        "MLP, ParameterServer local steps with 2 workers against one process on the same 2 cores",
        MLP_LOCAL,
        MLP_PLAIN_2,
        1.0,
    ),
)
