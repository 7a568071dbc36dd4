"""Whether distribution makes training faster: `make bench-train`."""
