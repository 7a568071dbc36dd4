"""What people use: the Python client, and the command line in `cli`.

It needs the operator's models and rules (`tftraining_operator.api` and `core`), never its process.
"""
