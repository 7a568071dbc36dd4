"""The commands with their options and help, one module for each group.

These modules are imported for every `--help`, so they import what a command does only when it runs:
typer is all that they need before.
"""
