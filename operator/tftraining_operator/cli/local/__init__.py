"""`tftj run --local`: a job's pods as processes of this computer.

The operator's own pass decides what is started, restarted and ended; here is only what takes the
place of a cluster: addresses, folders, processes, and what a person is shown.
"""
