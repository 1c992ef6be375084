import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.launch.batch.templates import FIELDS, TEMPLATES, check_template, template_for
from jupyter_dist.model.spec.batch import BATCH_SYSTEMS, ORCHESTRATORS, WITH_COORDINATOR

GOOD = "#!/bin/sh\n#SBATCH --nodes={nodes}\nsrun --ntasks-per-node=1 {agent}\n"


def problem(text):
    with pytest.raises(UsageError) as caught:
        check_template(text)
    return str(caught.value)


@pytest.mark.parametrize("system", sorted(TEMPLATES))
def test_our_own_templates_are_accepted(system):
    check_template(TEMPLATES[system])


def test_every_system_with_a_queue_has_a_template():
    assert set(TEMPLATES) == set(BATCH_SYSTEMS) - {"mpi", *ORCHESTRATORS}


@pytest.mark.parametrize("field", ["agent", "program_and_args", "program_args"])
def test_a_template_names_the_agent_as_ipyparallel_does_or_as_we_do(field):
    check_template(GOOD.replace("agent", field))


def test_a_template_may_count():
    check_template(f"{GOOD}# {{nodes * cores}} cores\n")


@pytest.mark.parametrize(
    "field", ["nodes.foo", "nodes // 0", "queue + 1", "queue[7]", "nodes:%Q", "cores:.3"]
)
def test_an_expression_without_a_value_is_named_with_its_line(field):
    text = problem(f"{GOOD}# {{{field}}}\n")
    assert text.startswith(f"template, line 4: '# {{{field}}}' ")


def test_an_expression_may_need_what_was_not_asked_for():
    text = f"{GOOD}# {{nodes // slots}}\n"
    check_template(text)
    check_template(text, {"slots": 8})
    with pytest.raises(UsageError, match=r"line 4: .* are 0"):
        check_template(text, {"slots": 0})


def test_a_shells_brace_is_written_twice():
    check_template(f"{GOOD}echo ${{{{HOME}}}}\n")


def test_an_unknown_field_is_named_with_its_line_and_what_is_accepted():
    text = problem(f"{GOOD}echo ${{SLURM_JOB_ID}}\n")
    assert text.startswith("template, line 4: field {SLURM_JOB_ID} ")
    assert all(f"{{{field}}}" in text for field in FIELDS)
    assert text.endswith("${{SLURM_JOB_ID}}.")


def test_an_unknown_name_within_an_expression_is_found():
    assert "line 4: field {gpus} " in problem(f"{GOOD}# {{nodes * gpus}}\n")


def test_a_template_that_starts_no_agent_is_refused():
    text = problem("#!/bin/sh\n#SBATCH --nodes={nodes}\nsrun python\n")
    assert "{agent} (or {program_and_args})" in text


@pytest.mark.parametrize("line", ["echo ${HOME", "echo HOME}", "f() {"])
def test_an_odd_brace_is_told_with_its_line(line):
    text = problem(f"{GOOD}{line}\n")
    assert text.startswith("template, line 4: ")
    assert repr(line) in text


@pytest.mark.parametrize("field", ["", "a b", "nodes +"])
def test_braces_around_something_else_are_told(field):
    assert f"line 4: {{{field}}} " in problem(f"{GOOD}{{{field}}}\n")


@pytest.mark.parametrize("system", WITH_COORDINATOR)
def test_the_first_node_alone_runs_a_coordinator(system):
    script = template_for(system, is_on_first=True)
    directives, _, rest = (
        script.rpartition("\n\n") if "\n\n" in script else script.rpartition("exec")
    )
    assert rest.strip() == "{agent}"
    assert all(line.startswith("#") for line in directives.splitlines())
    assert TEMPLATES[system].startswith(directives)
    check_template(script)
    assert template_for(system) == TEMPLATES[system]
