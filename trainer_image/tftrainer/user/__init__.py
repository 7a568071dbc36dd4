"""The user's module: loaded, checked, and called."""
