"""ServiceAccounts of the tests' API server, as their pods use them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.apiserver import ApiServer


def kubeconfig_of(server: ApiServer, namespace: str, account: str, path: Path) -> Path:
    """Write a kubeconfig with a token of a ServiceAccount, as its pod has it."""
    where = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = server.request("POST", where, asked)
    assert answer.ok, answer.message
    config = json.loads(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": answer.body["status"]["token"]}
    path.write_text(json.dumps(config))
    return path
