"""Jobs whose pods a real platform takes away while they train: what it costs them, measured."""
