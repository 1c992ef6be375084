"""Orchestrators that have nodes at hand start our agents: Ray, Dask and Kubernetes.

Their clients run in a process of their own (`python -m jupyter_dist.launch.orchestrators`), because
that of Ray ends its process when Ray is gone, and the coordinator has to live on. To the
coordinator it is a job like that of a batch system (`job.py`).
"""
