"""The other members of the cluster: probed, watched, and how TensorFlow tells their loss."""
