"""Batch systems start our agents: one job, one agent on each of its nodes.

`submission.submit` gives the job to look at and to end. Agents find home by a join file, as those
do that someone starts by hand. ipyparallel, whose launchers know the batch systems, is imported
only when a script is submitted or mpiexec is wanted.
"""
