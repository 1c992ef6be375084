"""What a person types to see where the time goes."""

import pytest

from jupyter_dist.errors import UsageError


def test_ranks_duration_and_kind_are_passed_on_and_the_profile_is_kept(run, cluster):
    assert "idle" in run("%dist_profile").text
    assert run("%dist_profile 2m --ranks 0 --with memory --native -o found").success
    assert cluster.calls == [
        ("profile", 5.0, None, "sampling", False),
        ("profile", 120.0, (0,), "memory", True),
    ]


@pytest.mark.parametrize(
    "line",
    ["%dist_profile 0", "%dist_profile 2h", "%dist_profile --with magic", "%dist_profile x y"],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_asked(run, cluster, line):
    assert run(line).text.startswith("UsageError")
    assert cluster.calls == []


def test_files_are_looked_at_before_and_written_after(run, cluster, tmp_path):
    mine = tmp_path / "mine.json"
    mine.write_text("{}")
    assert "mine.json" in run(f"%dist_profile --trace {mine}").text
    assert "memory" in run("%dist_profile --with memory --speedscope x.json").text
    assert cluster.calls == []
    trace, scope = tmp_path / "t.json", tmp_path / "s.json"
    assert run(f"%dist_profile --trace {trace} --speedscope {scope}").success
    assert trace.exists()
    assert scope.exists()


def test_a_cell_is_run_between_the_begin_and_the_end_of_its_profile(run, cluster):
    run("%%spmd --profile --native --ranks 0\n1")
    first, cell, last = cluster.calls
    assert (first, last) == (("begin_profile", (0,), "sampling", True), ("end_profile",))
    assert cell.code.endswith("\n1\n")


def test_a_cell_that_fails_has_its_error_and_its_profile(run, cluster):
    cluster.statuses = ("ok", "raised")
    done = run("%%spmd --profile memory\n1 / 0")
    assert not done.success
    assert "memory allocated" in done.text
    assert cluster.calls[0] == ("begin_profile", None, "memory", False)
    assert cluster.calls[-1] == ("end_profile",)


def test_in_the_background_there_is_no_end_to_wait_for(run, cluster):
    assert UsageError.__name__ in run("%%spmd --profile --background\n1").text
    assert cluster.calls == []


def test_traces_that_no_file_was_named_for_are_not_lost_silently(run, cluster):
    assert "--trace" in run("%dist_profile --with torch").text


def test_native_is_for_a_profile(run, cluster):
    assert "--profile --native" in run("%%spmd --native\n1").text
    assert cluster.calls == []
