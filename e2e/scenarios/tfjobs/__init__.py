"""TFJobs as people have them, converted and run: the table on the page about moving from TFJob.

    python -m e2e.scenarios.tfjobs --page docs/guide/from-tfjob.md

`shapes/` holds the manifests and `scripts/` what they run, both written for training-operator;
`shapes.py` says how each of them should end, `running.py` converts and runs them, `page.py` writes
the table. e2e/scenarios/test_tfjobs.py runs one of them.
"""
