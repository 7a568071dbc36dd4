"""Whether anything is to be done once a status is stored, or when to look again.

Asked by the pass (reconcile/reconciler.py) after its own write: if the next pass would change
nothing, it is not needed.
"""

from datetime import datetime

from tftraining_operator.core.decide import decide
from tftraining_operator.core.decision import Decision, Phase
from tftraining_operator.core.facts import Facts
from tftraining_operator.core.job import Job
from tftraining_operator.core.observed import Observed
from tftraining_operator.core.plan import make_plan
from tftraining_operator.core.pod_metadata import PodMetadata
from tftraining_operator.core.status import compute_status


def goes_on(decision: Decision, now: datetime) -> bool:
    """Tell whether a decision stores nothing that is yet to be acted on."""
    at_once = decision.look_again is not None and decision.look_again <= now
    waits = decision.restart or decision.announced or decision.chief_completed or at_once
    return decision.phase is Phase.ACTIVE and not waits


def settled(
    job: Job,
    observed: Observed,
    facts: Facts,
    now: datetime,
    *,
    trainer_image: str,
    given: PodMetadata,
) -> Decision | None:
    """Return the decision about a job that changes nothing, None if there is something to do.

    Raises SchedulerUnavailableError, InvalidJobError.
    """
    decision = decide(job, observed, facts, now)
    if decision.creations or not goes_on(decision, now):
        return None
    if make_plan(job, observed, decision, trainer_image, given).changes_anything:
        return None
    status = compute_status(
        job, observed, decision, facts, now, trainer_image=trainer_image, given=given
    )
    return decision if status == job.status else None
