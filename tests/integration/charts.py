"""The chart and the Helm that renders it, for the tests of both."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

Helm = Callable[..., str]

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts/tftraining-operator"
RELEASE = "tftraining"
NAMESPACE = "tftraining-system"


def helm_at_home(helm: Path, home: Path) -> Helm:
    """Return Helm away from the user's own settings; it raises with what it said."""

    def run(*arguments: str, kubeconfig: Path | None = None) -> str:
        environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
        if kubeconfig:
            environment["KUBECONFIG"] = str(kubeconfig)
        done = subprocess.run(
            [helm, *arguments], capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
