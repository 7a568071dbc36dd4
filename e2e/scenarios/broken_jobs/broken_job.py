"""A broken job: one mistake in a job that works otherwise, and what its user has to be told."""

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from e2e.scenarios.space import Space, job

_Object = dict[str, Any]

_HEARD_SECONDS = 2.0


def bring(space: Space, broken: "BrokenJob") -> None:
    """Apply what the job needs, then the job: the scheduler hears of both in this order."""
    if broken.beside:
        space.apply(*broken.beside)
        # By one watch for each kind, of which one may be late.
        time.sleep(_HEARD_SECONDS)
    space.apply(broken.manifest)


@dataclass(frozen=True, slots=True)
class BrokenJob:
    """A job with one mistake."""

    mistake: str
    """What is wrong, for the page: a noun phrase in Markdown."""
    manifest: _Object
    state: str
    """STATE of `kubectl get tftj`, once the mistake has shown."""
    words: tuple[str, ...]
    """Cause and remedy: in MESSAGE, in the first line of `tftj describe` and in the event."""
    beside: tuple[_Object, ...] = ()
    """Objects that exist before the job does."""
    bring: Callable[[Space, "BrokenJob"], None] = bring
    """What the user does until the job is broken."""
    is_restricted: bool = False
    """Whether the namespace takes only pods of the restricted Pod Security Standard."""

    @property
    def name(self) -> str:
        """The job's name."""
        return str(self.manifest["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class Told:
    """What a user reads of a job."""

    state: str
    message: str
    """As `kubectl get tftj -o wide` shows them."""
    described: str
    """The first line of `tftj describe`."""
    event: str
    """Reason and first line of the first event that warns, or says the state."""
    conditions: tuple[_Object, ...] = ()


def missing(broken: BrokenJob, told: Told) -> list[str]:
    """Return what the texts lack: `event: "resources.limits.memory"`."""
    texts = {
        "kubectl get": told.message,
        "tftj describe": told.described,
        "event": told.event,
    }
    lacking = [
        f'{name}: "{word}"' for name, text in texts.items() for word in missing_words(broken, text)
    ]
    if told.state != broken.state:
        lacking.insert(0, f"kubectl get: STATE {broken.state}, it is {told.state}")
    return lacking


def with_container(name: str, /, *, spec: _Object | None = None, **fields: Any) -> _Object:  # noqa: ANN401 - YAML
    """Return a job whose training container has these fields; `spec` goes into the job's spec."""
    made = copy.deepcopy(job(name, **spec or {}))
    made["spec"]["template"]["spec"]["containers"][0].update(fields)
    return made


def with_pod(name: str, /, **fields: Any) -> _Object:  # noqa: ANN401 - YAML
    """Return a job whose pods have these fields."""
    made = copy.deepcopy(job(name))
    made["spec"]["template"]["spec"].update(fields)
    return made


def missing_words(broken: BrokenJob, text: str) -> list[str]:
    """Return which of the words a text lacks."""
    return [word for word in broken.words if word not in text]
