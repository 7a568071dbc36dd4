"""The cluster as `tftj` talks to it: a connection, and the calls that the commands make."""
