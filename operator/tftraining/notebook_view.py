"""Shows a training while it runs in a notebook: one output that is updated in place."""

import sys
from types import TracebackType
from typing import Any, Self

from tftraining.job import TrainingJob
from tftraining.view import html
from tftraining.view.training import Losses


def in_notebook() -> bool:
    """Tell whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")  # whoever runs in it has imported it
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class NotebookView:
    """A context in which `show` displays a job; its last state stays in the notebook."""

    def __init__(self) -> None:
        self._losses = Losses()
        self._handle: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the last state as it is."""

    def show(self, seen: TrainingJob) -> None:
        """Display the present state."""
        from IPython.display import display  # noqa: PLC0415 - only a notebook has it

        if seen.job is not None:
            self._losses.see(seen.job)
        shown = _Shown(seen, list(self._losses.values))
        if self._handle is None:
            self._handle = display(shown, display_id=True)
        else:
            self._handle.update(shown)


class _Shown:
    """A job with the course of its loss, as HTML and as text."""

    def __init__(self, seen: TrainingJob, losses: list[float]) -> None:
        self._seen, self._losses = seen, losses

    def __repr__(self) -> str:
        return str(self._seen)

    def _repr_html_(self) -> str:
        seen = self._seen
        return html.job(seen.raw, seen.job, seen.pods, seen.now, self._losses)
