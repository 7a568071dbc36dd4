"""Stories that take minutes: `make chaos` tells them, `make test` does not."""
