from pathlib import Path

from jupyter_dist.launch.batch.agent_script import agent_script, agent_words
from jupyter_dist.launch.batch.order import BatchOrder
from jupyter_dist.model.spec.batch import BatchSpec

SCRIPT = Path("/shared/fit.agent.sh")


def order(**options):
    return BatchOrder(
        cluster="fit",
        spec=BatchSpec(system="slurm", nodes=2),
        join_path=Path("/shared/my jobs/fit.join"),
        directory=Path("/shared"),
        log_dir=Path("/private"),
        **options,
    )


def test_a_node_runs_an_agent_that_joins_by_file():
    script = agent_script(order(python="/opt/env/bin/python"))
    assert "p=/opt/env/bin/python" in script
    assert "-P -m jupyter_dist.agent --join '/shared/my jobs/fit.join'\n" in script


def test_the_coordinator_of_a_job_reads_its_order():
    script = agent_script(order(has_coordinator=True, slots=8))
    assert "-P -m jupyter_dist.coordinator.in_job '/shared/my jobs/fit.join'\n" in script
    assert "--slots" not in script


def test_its_slots_are_told_where_they_are_known():
    assert "--slots 8 --start-method spawn" in agent_script(order(slots=8, start_method="spawn"))
    assert "--slots" not in agent_script(order())


def test_setup_commands_run_first_and_in_a_login_shell():
    setup = "module load cuda"
    with_setup = order(setup=(setup,))
    script = agent_script(with_setup)
    assert script.index(setup) < script.index("jupyter_dist.agent")
    assert agent_words(with_setup, SCRIPT) == ["bash", "-l", str(SCRIPT)]
    assert agent_words(order(), SCRIPT) == ["sh", str(SCRIPT)]


def test_what_mpi_launchers_have_left_is_forgotten_before_python_starts():
    script = agent_script(order())
    for prefix in ("PMI_", "PMIX_", "OMPI_"):
        assert script.index(prefix) < script.index("jupyter_dist.agent")


def test_a_node_may_write_beside_the_jobs_output():
    lines = agent_script(order(), Path("/shared/my jobs/fit.log")).splitlines()
    assert """exec >>'/shared/my jobs/fit.log'."$(hostname)" 2>&1""" in lines[:4]
    assert "exec >>" not in agent_script(order())


def test_only_for_mpiexec_a_killed_agent_is_no_failure():
    assert "exit 0" in agent_script(order(), hides_signals=True)
    assert "exit 0" not in agent_script(order())
