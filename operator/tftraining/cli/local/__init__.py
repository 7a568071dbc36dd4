"""`tftj run --local`: runs a job's pods as processes of this computer.

The operator's own reconciler decides what is started, restarted and ended. The modules here take
the place of the cluster: API and kubelet, addresses, volumes, processes, and the display.
"""
