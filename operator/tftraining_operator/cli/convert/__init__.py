"""Converts Kubeflow TFJobs to TFTrainingJobs. Pure; commands/convert.py reads and writes."""
