"""A real Kubernetes cluster for scenarios and the demo: kind, also without Docker or a registry."""

from tools.cluster.cluster import Cluster, find, obtain, remove_remains
from tools.cluster.shell import ClusterError, NoClusterError

__all__ = ["Cluster", "ClusterError", "NoClusterError", "find", "obtain", "remove_remains"]
