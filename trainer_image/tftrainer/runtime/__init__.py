"""The process around a task: signals, stalls, progress that is served, and how it ends."""
