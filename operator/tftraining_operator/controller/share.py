"""The jobs that this process serves: all, or those of the shards whose leases it holds."""

from tftraining_operator.api import keys
from tftraining_operator.controller.sharding import shard_of, shard_of_bucket
from tftraining_operator.core.naming import BUCKETS
from tftraining_operator.reconcile.store import JobKey


class Share:
    """Which shards' objects are taken in, and which shards' jobs are worked on.

    Of a shard that is gained, jobs are worked on once all objects are known.
    """

    def __init__(self, shards: int) -> None:
        self._shards = shards
        unsharded = {0} if shards == 1 else set()
        self._taken_in: set[int] = set(unsharded)
        self._worked_on: set[int] = set(unsharded)

    def takes_in(self, key: JobKey) -> bool:
        """Tell whether objects of a job are kept."""
        return self.shard(key) in self._taken_in

    def works_on(self, key: JobKey) -> bool:
        """Tell whether passes over a job may begin."""
        return self.shard(key) in self._worked_on

    def selector(self) -> str:
        """Return the label selector of the objects that are kept, and of those without a bucket.

        An operator that knew no buckets made these; whose they are, their job's name tells.
        """
        others = self._others()
        if not others:
            return keys.LABEL_JOB
        return f"{keys.LABEL_JOB},{keys.LABEL_BUCKET} notin ({','.join(others)})"

    def job_selector(self) -> str:
        """Return the field selector of the jobs that are kept, and of those without a bucket.

        These are new: it is stored with their first status.
        """
        return ",".join(f"{keys.FIELD_BUCKET}!={bucket}" for bucket in self._others())

    def shard(self, key: JobKey) -> int:
        """Return the shard of a job."""
        return shard_of(key.namespace, key.name, self._shards)

    def take_in(self, shard: int) -> None:
        """Keep the objects of a shard from now on."""
        self._taken_in.add(shard)

    def work_on(self, shard: int) -> None:
        """Let passes over a shard's jobs begin."""
        self._worked_on.add(shard)

    def stop_work(self, shard: int) -> None:
        """Let no further pass over a shard's jobs begin."""
        self._worked_on.discard(shard)

    def forget(self, shard: int) -> None:
        """Keep no objects of a shard any longer."""
        self._taken_in.discard(shard)

    def _others(self) -> list[str]:
        """Return the buckets that are not kept."""
        return [
            str(bucket)
            for bucket in range(BUCKETS)
            if shard_of_bucket(bucket, self._shards) not in self._taken_in
        ]
