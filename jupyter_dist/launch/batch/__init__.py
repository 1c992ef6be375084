"""Batch systems start our agents: one job, one agent on each of its nodes.

`submit` gives the job to look at and to end. Agents find home by a join file, as those do that
someone starts by hand. ipyparallel, whose launchers know the batch systems, is imported only when
a script is submitted or mpiexec is wanted.
"""

from jupyter_dist.launch.batch.allocation import Allocation, check_room, find_allocation
from jupyter_dist.launch.batch.jobs import BatchJob
from jupyter_dist.launch.batch.order import BatchOrder
from jupyter_dist.launch.batch.submission import check_available, submit
from jupyter_dist.launch.batch.templates import check_template

__all__ = [
    "Allocation",
    "BatchJob",
    "BatchOrder",
    "check_available",
    "check_room",
    "check_template",
    "find_allocation",
    "submit",
]
