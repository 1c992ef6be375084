"""What nodes and schedulers said in real failures; only the names are others."""

import pytest

from jupyter_dist.launch.batch.refusals import next_step
from jupyter_dist.launch.batch.sayings import explain_output


@pytest.mark.parametrize(
    ("said", "reason", "step"),
    [
        (
            """/usr/bin/python3: Error while finding module specification for 'jupyter_dist.agent'
            (ModuleNotFoundError: No module named 'jupyter_dist')""",
            "a node of the job has no jupyter-dist for the Python that ran there",
            "--python",
        ),
        (
            "ModuleNotFoundError: No module named 'msgspec'",
            "Python on a node of the job finds no msgspec",
            "with all that it needs",
        ),
        (
            "jupyter-dist: there is no Python at /opt/py/bin/python",
            "a node of the job has no Python at /opt/py/bin/python",
            "--python",
        ),
        (
            "jupyter-dist: this setup command failed: module load cuda/99",
            "a setup command failed on a node of the job: module load cuda/99",
            "by hand",
        ),
        (
            """jupyter-dist: join file '/home/ada/fit.join' cannot be read: No such file or
            directory. %dist_start --hosts join:N writes one""",
            "a node of the job cannot read the join file '/home/ada/fit.join'",
            "--job-dir",
        ),
        (
            "sh: 0: cannot open /home/ada/fit-0a1b2c.agent.sh: No such file",
            "a node of the job does not see the script /home/ada/fit-0a1b2c.agent.sh",
            "--job-dir",
        ),
        (
            "sh: /home/ada/fit-0a1b2c.agent.sh: No such file or directory",
            "a node of the job does not see the script /home/ada/fit-0a1b2c.agent.sh",
            "--job-dir",
        ),
        (
            "jupyter-dist: no address of cluster 'fit' works from this host: 10.0.0.1 timed out.",
            "no address of cluster 'fit' works from this host: 10.0.0.1 timed out",
            "--interface",
        ),
        (
            "srun: error: Slurm job 1 has expired\nsrun: Check SLURM_JOB_ID environment variable.",
            "srun: error: Slurm job 1 has expired",
            "by hand",
        ),
    ],
)
def test_a_node_that_has_no_agent_says_why(said, reason, step):
    found = explain_output(f"joined cluster fit as nodeA; this agent ends with it\n{said}\n")
    assert found is not None
    assert found.reason == reason
    assert step in found.next_step
    assert said.splitlines()[0] in found.last_lines


@pytest.mark.parametrize(
    "said",
    [
        "",
        "joined cluster fit as nodeA; this agent ends with it",
        "srun: error: nodeB: task 1: Exited with exit code 1",
    ],
)
def test_what_explains_nothing_is_no_reason(said):
    assert explain_output(said) is None


@pytest.mark.parametrize(
    ("system", "said", "step"),
    [
        ("slurm", "sbatch: error: invalid partition specified: nope", "`sinfo`"),
        ("pbs", "qsub: Unknown queue", "--queue"),
        ("sge", 'Job was rejected because job requests unknown queue "nope"', "--queue"),
        ("sge", "warning: root's job is not allowed to run in any queue", "--template"),
        ("lsf", "gpu: No such queue. Job not submitted.", "`bqueues`"),
        ("slurm", "Batch job submission failed: Invalid account", "--account"),
        (
            "slurm",
            "Requested time limit is invalid (missing or exceeds some limit)",
            "--time-limit",
        ),
        ("slurm", "Requested node configuration is not available", "fewer --nodes"),
        ("slurm", "Unable to contact slurm controller (connect failure)", "does not answer"),
        ("slurm", "sbatch: unrecognized option '--frobnicate'", "--launcher-arg"),
        ("sge", "Unable to run job: job rejected by the site", "--template"),
    ],
)
def test_a_refusal_has_a_next_step(system, said, step):
    assert step in next_step(system, said)
