"""The read-only web page: which jobs train, which wait and why, and the course of their losses.

`tftj web` serves it on this computer, and `python -m tftraining.web` in a cluster (the chart's
`web.enabled`). The pages are pure functions from objects to HTML (overview.py, job_page.py, with
curve.py and markup.py); server.py answers with them, and source.py has the objects: jobs as a watch
keeps them, pods and events as they are asked for.
"""
