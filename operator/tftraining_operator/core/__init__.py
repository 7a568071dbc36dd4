"""Decisions as functions of (job, observed pods, now). No I/O, no clock, no Kubernetes client."""
