import pytest

MEDIANS = {"ours": 30.0, "nccl4py blocking": 10.0, "nccl4py": 20.0, "cupyx": 15.0}


@pytest.fixture
def plan(first_contact):
    return first_contact("plan")


def test_figures_of_the_benchmarks_are_in_the_table(first_contact):
    table = first_contact("table")

    def run(report):
        return {
            "begun": "2026-11-23T10:00:00+00:00",
            "ended": "",
            "code": 0,
            "wall_s": 9.6,
            "nccl": "sharing",
            "tests": [],
            "report": report,
            "tail": "",
        }

    facts = {"gpu": "NVIDIA H200", "gpus": 1, "driver": "580.1", "copy_gb_per_s": 2100.4}
    facts["versions"] = {"nccl4py": "0.6.0"}
    facts["blocked_s"] = {"free": {"main": 3.0, "tick": 0.0, "setDevice": 2.9876}}
    overhead = {"versions": {"nccl": 23203}, "median_us": MEDIANS}
    text = table.make_text(
        {
            "facts": run(facts),
            "overhead": run(overhead),
            "overhead_blocking": run(None),
            "sweep": run({"ranks": 2, "median_us": {"8": MEDIANS, "1048576": MEDIANS}}),
        }
    )
    assert "Found on 2026-11-23 on 1 NVIDIA H200: driver 580.1, nccl4py 0.6.0; NCCL 2.32.3" in text
    assert "| free | 3.000 | 0.000 | 2.988 |" in text
    assert "| default | 30.0 | 10.0 | 20.0 | 15.0 |" in text
    assert "BLOCKING" not in text, "a benchmark without a report has no figures"
    # 1 MiB in 30 µs are 35 GB/s, which for two ranks is the bus bandwidth too.
    assert "| 1048576 | 34.95 | 104.86 | 52.43 | 69.91 | 2100 |" in text


@pytest.mark.parametrize(
    ("text", "steps"),
    [("all", [1, 2, 3, 4]), ("none", []), ("2", [2]), ("1-2", [1, 2]), ("4,1-2", [4, 1, 2])],
)
def test_steps_are_read(plan, text, steps):
    assert plan.read_steps(text, [1, 2, 3, 4]) == steps


@pytest.mark.parametrize("text", ["", "0", "5", "1-5", "2-1", "x", "1,,2"])
def test_steps_that_cannot_be_meant_are_refused(plan, text):
    with pytest.raises(ValueError, match="from 1 to 4"):
        plan.read_steps(text, [1, 2, 3, 4])


def test_every_step_ends_within_one_loan_and_every_test_is_in_one(plan):
    steps = plan.make_steps(1)
    for step in steps.values():
        assert sum(run.limit_s for run in step.runs) <= 550, step.title
    given = " ".join(part for step in steps.values() for run in step.runs for part in run.arguments)
    for path in plan.GPU_TESTS.glob("test_*.py"):
        assert str(path) in given


def test_the_page_of_the_docs_has_a_place_for_it(first_contact, tmp_path):
    contact = first_contact("contact")
    page = tmp_path / "gpu.md"
    page.write_bytes(contact.PAGE.read_bytes())
    contact.write_into(page, "what was found")
    assert "what was found" in page.read_text()
    page.write_text("no place")
    with pytest.raises(ValueError, match="begin"):
        contact.write_into(page, "")
