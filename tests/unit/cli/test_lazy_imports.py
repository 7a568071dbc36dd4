"""A command connects without the parts of Kubernetes' client that it does not use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
CONNECT = "from tftraining.cli.lazy_imports import import_connection\nimport_connection()\n"


def printed(code: str) -> list[str]:
    """Return what a new process prints, as words."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT / "operator")},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_a_command_connects_without_what_it_does_not_use() -> None:
    loaded = set(printed(f"{CONNECT}import sys; print(*sys.modules)"))
    assert "kubernetes.client.rest" in loaded
    unused = {"kubernetes.dynamic.client", "kubernetes.informer.cache", "kubernetes.watch.watch"}
    unused |= {"kubernetes.stream.ws_client", "websocket"}
    unused |= {"oauthlib.oauth2.rfc6749", "requests", "requests_oauthlib"}
    assert loaded & unused == set()


def test_what_was_deferred_is_there_when_it_is_used() -> None:
    code = (
        "import kubernetes, requests_oauthlib\n"
        "from kubernetes.config import kube_config\n"
        "import tftraining.cluster.execution\n"
        "session = kube_config.OAuth2Session(client_id='tftj')\n"
        "print(isinstance(session, requests_oauthlib.OAuth2Session))\n"
        "print(kube_config.oauthlib.oauth2.rfc6749.errors.InvalidClientIdError.__name__)\n"
        "print(kubernetes.watch.Watch.__name__, kubernetes.dynamic.DynamicClient.__name__)\n"
    )
    assert printed(CONNECT + code) == [
        *("True", "InvalidClientIdError"),
        *("Watch", "DynamicClient"),
    ]


def test_modules_that_are_loaded_already_stay_as_they_are() -> None:
    code = "import kubernetes, requests_oauthlib\nsession = requests_oauthlib.OAuth2Session\n"
    after = "print(kubernetes.config.kube_config.OAuth2Session is session)"
    assert printed(code + CONNECT + after) == ["True"]


def test_other_imports_are_found_as_before() -> None:
    code = "import sys\nfinders = list(sys.meta_path)\n"
    assert printed(f"{code}{CONNECT}print(sys.meta_path == finders)") == ["True"]
