"""Strings that parsers of YAML read in different ways unless they are quoted."""

AMBIGUOUS = (
    *("y", "Y", "yes", "YES", "n", "No", "on", "On", "OFF", "true", "False"),
    *("null", "Null", "~", "", "=", "<<"),
    *("1", "-1", "+1", "1_000", "-_1", "017", "0_17", "089", "0o17", "-0O7", "0b11", "0x1F"),
    *("1e3", "1e-3", "12E03", "1.e3", "0.1e1_0", ".5", "5.", "+.5e3", "-.5", "._1", "0x1p-2"),
    *(".inf", "-.INF", "+.Inf", ".nan", ".NaN"),
    *("1:30", "12:30:45", "190:20:30.15"),
    *("2001-01-01", "2001-12-14t21:59:43.10-05:00", "2001-12-14 21:59:43.10 -5"),
)
"""What is to be quoted."""

PLAIN = (
    *("mnist", "10Gi", "500m", "v1", "2.20.0", "10.0.0.1", "yesterday", "--epochs=5", "-c", "nan"),
    *("gs://bucket/1", "a b"),
)
"""What no parser takes for anything else."""

SIGNS = "0123456789+-._:eExXobyYnNfFtTzZ~<=>#'\"&*!|%@`{}[],? \n\t\\/"
"""What matters to parsers, to make other strings of."""
