"""A real Kubernetes cluster for stories and the demo: kind, also without Docker and registries."""

from e2e.cluster.cluster import Cluster, obtain
from e2e.cluster.shell import ClusterError

__all__ = ["Cluster", "ClusterError", "obtain"]
