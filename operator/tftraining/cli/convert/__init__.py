"""Converts Kubeflow's TFJobs to TFTrainingJobs, and back. Pure; cli/conversion.py does the I/O."""
