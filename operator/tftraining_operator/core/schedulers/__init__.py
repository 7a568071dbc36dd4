"""Schedulers that place a gang, one file each behind the interface in scheduler.py. Pure.

kueue.py beside them is no scheduler: it says when a job may have pods at all.
"""

from collections.abc import Mapping

from tftraining_operator.api.scheduling import Gang
from tftraining_operator.core.schedulers.coscheduling import Coscheduling
from tftraining_operator.core.schedulers.in_tree import InTree
from tftraining_operator.core.schedulers.scheduler import Scheduler
from tftraining_operator.core.schedulers.volcano import Volcano

SCHEDULERS: Mapping[Gang, Scheduler] = {
    Gang.IN_TREE: InTree(),
    Gang.POD_GROUP: Coscheduling(),
    Gang.VOLCANO: Volcano(),
}
"""By the value of spec.scheduling.gang that asks for it."""
