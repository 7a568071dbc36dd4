"""Imports the connection to a cluster without what Kubernetes' client hardly ever needs.

`import kubernetes` runs all of its packages (watches, dynamic client, informer, exec), and reading
a kubeconfig an OAuth library for a login that few use. Here each of them is loaded when it is used
for the first time. Done in tftj's process alone, by `commands/options.py` before it connects:
programs that use the Python client import Kubernetes' client as it is.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

_DEFERRED = {
    "kubernetes.dynamic",
    "kubernetes.informer",
    "kubernetes.leaderelection",
    "kubernetes.stream",
    "kubernetes.watch",
    "oauthlib.oauth2",
}
_OAUTH = "requests_oauthlib"


def import_connection() -> None:
    """Import tftraining.cluster.connection."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    stand_in = _oauth()
    given = sys.modules.setdefault(_OAUTH, stand_in)
    try:
        import_module("tftraining.cluster.connection")
    finally:
        sys.meta_path.remove(finder)
        if given is stand_in:
            del sys.modules[_OAUTH]


class _Finder(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module that is deferred; the other finders find the rest."""
        spec = PathFinder.find_spec(name, path, target) if name in _DEFERRED else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def _oauth() -> ModuleType:
    """Return what stands for a module of which the client imports a class by its name."""
    module = ModuleType(_OAUTH)
    module.OAuth2Session = _oauth2_session  # type: ignore[attr-defined]
    return module


def _oauth2_session(*given: object, **named: object) -> object:
    return import_module(_OAUTH).OAuth2Session(*given, **named)
