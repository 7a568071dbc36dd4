"""For which of the jobs that nobody has looked at for a while a process may take its time.

Asked by controller/first_looks.py, once all objects are listed: thousands of jobs train as they
should, and the passes over them would delay that over one whose worker was lost meanwhile.
"""

from datetime import datetime
from typing import Any

from tftraining_operator.core.conditions import is_finished
from tftraining_operator.core.pod_state import is_on_its_way
from tftraining_operator.core.salvage import stored_status

_Object = dict[str, Any]


def is_at_rest(job: _Object, pods: list[_Object], now: datetime) -> bool:
    """Tell whether all pods of a started job start or run, or none of one that has ended."""
    metadata = job["metadata"]
    created = metadata.get("creationTimestamp")
    status, repairs = stored_status(job.get("status"), created=created, now=now)
    wanted = 0 if is_finished(status) else sum(role.desired for role in status.roles)
    return (
        status.start_time is not None
        and not repairs
        and status.observed_generation == metadata.get("generation")
        and sum(map(is_on_its_way, pods)) == wanted
    )
