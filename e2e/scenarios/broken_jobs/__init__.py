"""Jobs as users break them, and what the terminal says of each: the table on the page of troubles.

    python -m e2e.scenarios.broken_jobs --page docs/guide/troubleshooting.md

`manifests.py` and `code.py` hold the jobs, `looking.py` runs them and reads what a user would read,
`page.py` writes it down. e2e/scenarios/test_bad_manifests.py runs the jobs of `manifests.py`.
"""
