"""The pass over one job, and what it needs: store, queue, applier.

It knows neither kopf nor the Kubernetes client: whoever runs it (the controller on a cluster, the
command line on one computer) brings an implementation of `protocols.Api`.
"""
