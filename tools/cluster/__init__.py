"""A real Kubernetes cluster for stories and the demo: kind, also without Docker and registries."""

from tools.cluster.cluster import Cluster, obtain
from tools.cluster.shell import ClusterError

__all__ = ["Cluster", "ClusterError", "obtain"]
