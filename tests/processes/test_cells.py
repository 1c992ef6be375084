"""What a cell finds on its ranks and what comes back of it."""

import pytest

from jupyter_dist.errors import UnknownRanks

from .leftovers import wait_until
from .results import values

BOUND = {
    "x = 1\nrank = 50": ("rank", 2),
    "comm = None": ("comm", 1),
    "x = 1\n\ndel comm": ("comm", 3),
    "for world_size in (7, 9):\n    pass": ("world_size", 1),
    "def comm(): pass": ("comm", 1),
    "import math as comm\n1/0": ("comm", 1),
    "x = 1\nexec('local_rank = 77')": ("local_rank", 2),
    "%reset -f\nlocal_world_size = 'x'": ("local_world_size", 2),
    "%%time\n\nrank = 50": ("rank", 3),
}


@pytest.mark.parametrize("code", BOUND)
def test_a_cell_that_binds_a_name_of_the_cluster_is_warned_at_that_line_and_it_comes_back(
    four, code
):
    name, line = BOUND[code]
    result = four.run(code, label=61)
    for each in result:
        assert each.stderr.startswith(f"In[61]:{line}: UserWarning: {name} is given"), each.stderr
        assert each.stderr.count("UserWarning") == 1
    names = "(rank, world_size, local_rank, local_world_size, comm.rank, callable(checkpoint.save))"
    result = four.run(names)
    assert [each.value_repr for each in result] == [
        f"({k}, 4, {k}, 4, {k}, True)" for k in range(4)
    ]
    assert not any(each.stderr for each in result)


def test_a_name_of_the_cluster_that_is_bound_to_what_it_is_anyway_is_no_mistake(four):
    four.run("checkpoint = {'model': 1}")
    assert four.run("checkpoint['model']").ok, "an ordinary name of programs that train"
    four.run("checkpoint = get_ipython().own_names['checkpoint']")
    result = four.run("rank, world_size = comm.rank, comm.size\nfor x in [rank]: pass")
    assert not any(each.stderr for each in result)


SHOWN_LONG_BEFORE_THE_END = """
import time
class Value:
    made = 0
    def __repr__(self):
        Value.made += 1
        return f"made {Value.made}"
def linger(result):
    get_ipython().events.unregister("post_run_cell", linger)
    time.sleep(0.5)
get_ipython().events.register("post_run_cell", linger)
Value()
"""


def test_a_value_that_was_sent_before_the_end_of_the_cell_is_drawn_once(four):
    assert [each.value_repr for each in four.run(SHOWN_LONG_BEFORE_THE_END)] == ["made 1"] * 4


def test_every_rank_runs_the_cell_and_results_come_in_rank_order(four):
    result = four.run(
        "import sys\nprint('out', rank)\nprint('err', rank, file=sys.stderr)\nrank * 2"
    )

    assert [rank.rank for rank in result] == [0, 1, 2, 3]
    assert [rank.status for rank in result] == ["ok"] * 4
    assert [rank.stdout for rank in result] == [f"out {k}\n" for k in range(4)]
    assert [rank.stderr for rank in result] == [f"err {k}\n" for k in range(4)]
    assert [rank.value_repr for rank in result] == ["0", "2", "4", "6"]
    assert all(rank.error is None and 0 < rank.duration_s < 60 for rank in result)
    assert result.ok
    result.raise_first()


def test_a_result_is_found_by_place_and_by_rank(four):
    result = four.run("rank", ranks="1,3")

    assert [rank.rank for rank in result] == [1, 3]
    assert result[1].rank == 3
    assert result.rank(1).value_repr == "1"
    with pytest.raises(ValueError, match=r"rank 2 .*ranks 1,3"):
        result.rank(2)


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [(2, [2]), ("0,2-3", [0, 2, 3]), ([3, 1, 1], [1, 3]), (range(2), [0, 1]), (None, [0, 1, 2, 3])],
)
def test_ranks_are_chosen_by_number_text_or_sequence(four, ranks, expected):
    assert [result.rank for result in four.run("None", ranks=ranks)] == expected


@pytest.mark.parametrize("ranks", ["4", "2-", "a", "", "1-0", "0,,1", 4, -1, [], [0, 7]])
def test_ranks_that_are_not_there_are_refused_naming_them(four, ranks):
    with pytest.raises(UnknownRanks) as caught:
        four.run("print('ran')", ranks=ranks)
    assert (caught.value.given, caught.value.world_size) == (str(ranks), 4)


@pytest.mark.parametrize("timeout_s", [0, -1.0])
def test_a_time_limit_of_nothing_is_refused(four, timeout_s):
    with pytest.raises(ValueError, match=rf"timeout {timeout_s} .*more than 0"):
        four.run("1", timeout_s=timeout_s)


def test_a_cell_may_call_the_shell(four):
    result = four.run("!echo hi from $RANK")
    assert [rank.stdout.splitlines() for rank in result] == [[f"hi from {k}"] for k in range(4)]


def test_a_cell_may_take_the_shells_answer(four):
    assert values(four.run("lines = !echo {rank} hi\nlines[0]")) == [f"'{k} hi'" for k in range(4)]


def test_line_and_cell_magics_work(four):
    result = four.run("%time x = rank")
    assert result.ok
    assert all("Wall time" in rank.stdout for rank in result)
    assert all("per loop" in r.stdout for r in four.run("%timeit -n1 -r1 pass"))
    captured = four.run("%%capture caught\nprint('quiet')")
    assert [rank.stdout for rank in captured] == [""] * 4
    assert values(four.run("caught.stdout")) == ["'quiet\\n'"] * 4


def test_a_magic_that_does_not_exist_is_an_error(four):
    result = four.run("%no_such_magic", ranks=0)
    assert result[0].status == "raised"
    assert "no_such_magic" in str(result[0].error) + "".join(result[0].error.traceback)


def test_a_magic_used_wrongly_says_how_to_use_it(four):
    result = four.run("%timeit -q -n x pass", ranks=0)
    assert result[0].status == "raised"
    assert result[0].error.traceback


def test_the_last_value_is_shown_unless_a_semicolon_follows(four):
    shown = four.run("'seen'", ranks=0)[0]
    assert shown.value_repr == "'seen'"
    assert [output.data["text/plain"] for output in shown.displays] == ["'seen'"]

    hidden = four.run("'unseen';", ranks=0)[0]
    assert hidden.displays == ()
    assert hidden.stdout == ""

    assert four.run("None", ranks=0)[0].value_repr is None
    assert four.run("x = 5", ranks=0)[0].value_repr is None


def test_a_value_whose_repr_raises_is_said_to(four):
    code = "class Odd:\n    def __repr__(self):\n        raise RuntimeError('no repr')\nOdd()"
    result = four.run(code, ranks=0)[0]
    assert "RuntimeError" in str(result.value_repr) + str(result.error) + result.stderr
    assert values(four.run("1 + 1", ranks=0)) == ["2"]


def test_names_stay_from_cell_to_cell(four):
    four.run("kept = [rank]")
    four.run("kept.append('more')")
    assert values(four.run("kept")) == [f"[{k}, 'more']" for k in range(4)]


def test_a_rank_knows_its_place(four):
    expected = [f"({k}, 4, {k}, 4)" for k in range(4)]
    assert values(four.run("rank, world_size, local_rank, local_world_size")) == expected
    code = (
        "import os\n"
        "tuple(int(os.environ[n]) for n in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE'))"
    )
    assert values(four.run(code)) == expected
    assert values(four.run("os.environ['GROUP_RANK']")) == ["'0'"] * 4


def test_ranks_have_one_hash_seed_but_random_states_of_their_own(four):
    assert len(set(values(four.run("hash('a word')")))) == 1
    code = "import random, numpy\n(random.random(), float(numpy.random.rand()))"
    assert len(set(values(four.run(code)))) == 4


def test_a_collective_of_too_few_ranks_says_so_at_once(four, within):
    with within(2):
        result = four.run("comm.barrier()", ranks="0,2")
    raised = [rank for rank in result if rank.status == "raised"]
    # Who comes later may hear of that first.
    assert {rank.status for rank in result} <= {"raised", "peer_failed"}
    assert all("0,2" in str(rank.error) or "[0, 2]" in str(rank.error) for rank in raised)
    assert raised
    assert values(four.run("comm.barrier()")) == [None] * 4


def test_a_cell_can_import_from_the_directory_it_runs_in(start, tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "my_model.py").write_text("answer = 42\n")
    cluster = start("localhost:2", cwd=tmp_path / "project")
    result = cluster.run("import my_model, os\nprint(my_model.answer, os.getcwd(), end='')")
    assert {rank.stdout for rank in result} == {f"42 {tmp_path / 'project'}"}


def test_a_cell_runs_while_another_thread_asks_for_the_status(four, in_background, tmp_path):
    go = tmp_path / "go"
    code = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.005)\nrank"
    running = in_background(four.run, code)
    wait_until(lambda: set(four.status().ranks.values()) == {"busy"}, 10, "all ranks are busy")
    assert not running.done()
    go.touch()
    assert running.result(10).ok
    assert set(four.status().ranks.values()) == {"idle"}
    assert "4 ranks on 1 host" in str(four.status())


def test_an_alarm_that_goes_off_between_cells_costs_a_rank_nothing(four, tmp_path):
    mark = tmp_path / "late"
    four.run(
        "import pathlib, signal\n"
        "def late(*_):\n"
        f"    pathlib.Path({str(mark)!r} + str(rank)).touch()\n"
        "    raise TimeoutError('too late')\n"
        "_ = signal.signal(signal.SIGALRM, late)\n"
        "_ = signal.setitimer(signal.ITIMER_REAL, 0.05)\n"
        "kept = rank"
    )
    wait_until(lambda: len(list(tmp_path.iterdir())) == 4, 10, "the alarms")
    result = four.run("kept, signal.getsignal(signal.SIGALRM) is late")
    assert values(result) == [f"({k}, True)" for k in range(4)]
    assert all("TimeoutError: too late" in rank.stderr for rank in result)
    four.run("signal.signal(signal.SIGALRM, signal.SIG_DFL)")
