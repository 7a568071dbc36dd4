"""Converts Kubeflow's TFJobs to TFTrainingJobs. Pure; commands/convert.py reads and writes."""
