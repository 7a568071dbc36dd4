"""Stories told on a real Kubernetes node, and how such a node is had."""
