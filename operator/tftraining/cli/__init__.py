"""The command line: `tftj`, and `kubectl tftj`. It needs the core's rules, never the controller."""
