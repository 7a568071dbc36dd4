"""Makes the pictures of the docs from jobs that train in a cluster: `make screenshots`."""
