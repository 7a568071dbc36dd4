"""Two jobs on a cluster with room for one: by Kubernetes' own gang scheduling, and without."""
