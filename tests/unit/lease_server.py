"""Keeps leases as the API server does."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tftraining_operator.reconcile import errors


@dataclass
class LeaseServer:
    """Leases by namespace and name."""

    leases: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)
    """Identities whose calls are not answered."""
    readers: set[str] = field(default_factory=set)
    """Identities that may write nothing."""
    reads: int = 0
    writes: Counter[str] = field(default_factory=Counter)
    """How often each identity asked for a write, refused or not."""
    version: int = 0

    async def get_lease(self, namespace: str, name: str) -> dict[str, Any]:
        self.reads += 1
        if (namespace, name) not in self.leases:
            raise errors.NotFoundError("no lease", status=404)
        return copy.deepcopy(self.leases[namespace, name])

    async def create_lease(self, body: dict[str, Any]) -> dict[str, Any]:
        if _key(body) in self.leases:
            raise errors.AlreadyExistsError("there is one", status=409)
        return self._store(body)

    async def replace_lease(self, body: dict[str, Any]) -> dict[str, Any]:
        known = self.leases[_key(body)]["metadata"]["resourceVersion"]
        if body["metadata"]["resourceVersion"] != known:
            raise errors.ConflictError("it has changed", status=409)
        return self._store(body)

    def _store(self, body: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        stored = copy.deepcopy(body)
        stored["metadata"]["resourceVersion"] = str(self.version)
        self.leases[_key(body)] = stored
        return copy.deepcopy(stored)


def _key(body: dict[str, Any]) -> tuple[str, str]:
    return body["metadata"]["namespace"], body["metadata"]["name"]
