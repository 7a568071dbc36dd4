"""Scenarios on a real cluster, the demo and chaos; what they run on comes from tools/."""
