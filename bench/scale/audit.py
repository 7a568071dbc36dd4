"""Counts requests by who made them, from the audit log that the API server itself writes."""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  resources:
  - {group: coordination.k8s.io, resources: [leases]}
- level: None
  nonResourceURLs: ["*"]
- level: Metadata
"""

FLUSH_SECONDS = 1
"""The API server writes a batch of entries at least this often."""

_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_JOB = re.compile(r"(job-\d+)(?:[-.].*)?")
"""The job that an object belongs to, by its name; that of an event begins so too."""
_SELECTED = re.compile(r"tftraining\.dev(?:/|%2F)job(?:=|%3D)(job-\d+)\b")
"""The job whose objects a request is about that names none, as a deletecollection."""


@dataclass(slots=True)
class Requests:
    """What one client asked for: how often, by words such as `create pods`."""

    writes: Counter[str] = field(default_factory=Counter)
    reads: Counter[str] = field(default_factory=Counter)


def flags(folder: Path) -> list[str]:
    """Write the policy; return the API server's flags for a log at `log(folder)`."""
    policy = folder / "audit-policy.yaml"
    policy.write_text(POLICY)
    return [
        f"--audit-policy-file={policy}",
        f"--audit-log-path={log(folder)}",
        # Batches: that we count must cost those who are counted no time.
        "--audit-log-mode=batch",
        "--audit-log-batch-buffer-size=1000000",
        f"--audit-log-batch-max-wait={FLUSH_SECONDS}s",
        "--audit-log-batch-throttle-enable=false",
        "--audit-log-maxsize=100000",
    ]


def log(folder: Path) -> Path:
    """Return where the log is."""
    return folder / "audit.log"


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment in an audit log."""

    path: Path
    offset: int

    @classmethod
    def now(cls, path: Path) -> "Mark":
        """Return the present end of a log, once it has everything up to now."""
        time.sleep(2 * FLUSH_SECONDS)
        return cls(path, path.stat().st_size if path.exists() else 0)

    def since(
        self, end: "Mark", agents: tuple[str, ...], ended: Mapping[str, str] | None = None
    ) -> Requests:
        """Count the requests between two marks of the clients whose names begin with `agents`.

        All, or those about these jobs which were received after a time for each (RFC 3339, UTC).
        """
        found = Requests()
        for entry in self._entries(end):
            if entry.get("userAgent", "").startswith(agents) and _is_about(entry, ended):
                verb = entry["verb"]
                kind = found.writes if verb in _WRITES else found.reads
                kind[_words(entry)] += 1
        return found

    def _entries(self, end: "Mark") -> Iterator[dict[str, Any]]:
        with self.path.open("rb") as log:
            log.seek(self.offset)
            while log.tell() < end.offset:
                yield json.loads(log.readline())


def _is_about(entry: dict[str, Any], ended: Mapping[str, str] | None) -> bool:
    if ended is None:
        return True
    name = (entry.get("objectRef") or {}).get("name")
    found = _JOB.fullmatch(name) if name else _SELECTED.search(entry.get("requestURI", ""))
    moment = ended.get(found[1]) if found else None
    return moment is not None and entry["requestReceivedTimestamp"] > moment


def _words(entry: dict[str, Any]) -> str:
    about = entry.get("objectRef") or {}
    parts = [about.get("resource", ""), about.get("subresource", "")]
    words = f"{entry['verb']} {'/'.join(part for part in parts if part)}"
    return f"{words}, dry run" if "dryRun=" in str(entry.get("requestURI")) else words
