"""What this process is given: arguments, environment and TF_CONFIG, checked. No TensorFlow."""
