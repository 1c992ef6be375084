"""Whatever a cell displays, it ends at once with the truth, and what it printed is all there."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from jupyter_dist.errors import TransferError
from tests.patience import wait_until, within
from tests.rubbish import BUNDLES, RUBBISH, SIZES

from .pages import show


@pytest.fixture(scope="module")
def run(shared):
    """Run a cell on all ranks as a notebook would, within 2 s; gives the results and the page."""
    shared.cluster.run("from IPython.display import display\nnan, inf = float('nan'), float('inf')")

    def run(code, status="ok"):
        with within(2):
            result, page = show(shared.cluster, code)
        assert [each.status for each in result] == [status] * 4, str(result[0].error)
        return result, page

    return run


@pytest.mark.slow
@given(BUNDLES, SIZES | RUBBISH, RUBBISH)
@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_rubbish_costs_a_cell_its_end_or_its_lines(run, bundle, metadata, display_id):
    code = f"""
bundle, metadata, name = {bundle!r}, {metadata!r}, {display_id!r}
if not isinstance(metadata, dict):
    metadata = {{"image/png": metadata}}
class Odd:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return bundle, metadata
print("one")
display(bundle, raw=True, metadata=metadata)
print("two")
display(bundle, raw=True, display_id=name)
print("three")
display(Odd())
print("four")
get_ipython().display_pub.publish(bundle, metadata, transient={{"display_id": name}}, update=True)
get_ipython().display_pub.publish(bundle, transient=name)
print("five", rank)
Odd()
"""
    result, page = run(code)
    assert [each.stdout for each in result] == [
        f"one\ntwo\nthree\nfour\nfive {rank}\n" for rank in range(4)
    ]
    assert "one\n" in page.text


@pytest.mark.parametrize(
    "display",
    [
        "display({'image/png': 'AAAA'}, raw=True, metadata={'width': inf, 'height': 10**400})",
        "display({'image/svg+xml': '\\ud800'}, raw=True)",
        "import tqdm; bar = tqdm.tqdm(total=nan); bar.set_description('\\ud800'); bar.close()",
        "import tqdm; bar = tqdm.tqdm(total=10); bar.start_t = 'x'; bar.n = nan; bar.refresh",
    ],
)
def test_a_display_between_two_lines_costs_neither(run, display):
    result, _ = run(f"print('before')\n{display}\nimport time\ntime.sleep(0.1)\nprint('after')")
    assert [each.stdout for each in result] == ["before\nafter\n"] * 4


@pytest.mark.parametrize("lines", ["[1, 2]", "['\\ud800', None]", "'text'", "[b'x', {}]"])
def test_an_error_that_draws_itself_oddly_is_told(run, lines):
    code = f"""
class Odd(Exception):
    def _render_traceback_(self):
        return {lines}
print("before")
raise Odd("\\ud800")
"""
    result, _ = run(code, status="raised")
    assert {each.error.ename for each in result} == {"Odd"}
    assert [each.stdout for each in result] == ["before\n"] * 4


# --- what cannot be read although everything was done ---

BREAK = """
import jupyter_dist.control.dealer as dealer, msgspec
real = dealer.encode
def broken(message, buffers=()):
    frames = real(message, buffers)
    if type(message).__name__ == {kind!r}:
        dealer.encode = real
        body = msgspec.msgpack.decode(frames[1])
        {change}
        frames[1] = body if isinstance(body, bytes) else msgspec.msgpack.encode(body)
    return frames
if rank == 1:
    dealer.encode = broken
kept = 40 + rank
print("said", rank)
"""


def break_one(kind, change):
    """A cell in which rank 1 sends one message that nobody can read as it is."""
    return BREAK.format(kind=kind, change=change)


class Notes:
    """Keeps the notes of a cell."""

    def __init__(self):
        self.notes = []

    def on_output(self, ranks, outputs):
        notes = [output.text for output in outputs if output.kind == "note"]
        self.notes += [(rank, text) for rank in ranks for text in notes]

    def on_finished(self, result):
        pass

    def on_note(self, text):
        self.notes.append((None, text))

    def on_tick(self):
        pass


def log_of(cluster):
    return Path(cluster._connection.log_path).read_text()


def run_broken(cluster, kind, change):
    notes = Notes()
    with within(2):
        result = cluster.run(break_one(kind, change), watcher=notes)
    assert [each.status for each in result if each.rank != 1] == ["ok"] * 3
    return result.rank(1), notes.notes


def assert_kept(cluster):
    with within(2):
        assert cluster.pull("kept") == {rank: 40 + rank for rank in range(4)}
        assert cluster.run("kept").ok


def test_an_output_that_cannot_be_read_is_told_and_those_around_it_are_kept(four):
    change = "body['outputs'] = [*body['outputs'], {'kind': 'display', 'display_id': 5}]"
    ended, notes = run_broken(four, "CellResult", change)
    assert (ended.status, ended.stdout) == ("ok", "said 1\n")
    assert [rank for rank, text in notes if "could not" in text] == [1]
    assert re.search(r"Its [\d,]+ bytes: b['\"].*display_id", log_of(four))
    assert_kept(four)


def test_a_cell_whose_end_cannot_be_read_has_not_ended_well(four):
    ended, _ = run_broken(four, "CellResult", "body['status'] = 7")
    assert (ended.status, ended.stdout) == ("raised", "said 1\n")
    assert ended.error.ename == "MalformedMessage"
    assert_kept(four)


def test_an_answer_to_a_pull_that_cannot_be_read_is_an_error_of_that_pull(four):
    four.run(break_one("ObjectFetched", "body['problem'] = [1]"))
    with within(2), pytest.raises(TransferError, match=r"rank 1: .*Expected"):
        four.pull("kept")
    assert_kept(four)


def test_bytes_that_are_no_message_end_the_cell_on_that_rank_and_cost_it_nothing(four):
    ended, notes = run_broken(four, "CellResult", "body = b'\\xc1' * 5000")
    assert ended.status == "raised"
    assert "not known" in ended.error.evalue
    assert any("rank 1" in text for _, text in notes)
    assert "5,000 bytes (the first 1000)" in log_of(four)
    assert_kept(four)


def test_neither_does_a_pull_wait_for_bytes_that_are_no_message(four):
    four.run(break_one("ObjectFetched", "body = b'\\xc1'"))
    with within(2), pytest.raises(TransferError, match="rank 1: its answer"):
        four.pull("kept")
    assert_kept(four)


@pytest.mark.slow
def test_a_line_of_megabytes_in_a_stack_that_its_agent_reads_costs_the_host_nothing(four):
    """A message of gRPC that is too long breaks the agent's stream, and ends its ranks."""
    line = f"text = '{'a' * 5_000_000}'; import ctypes; _ = ctypes.PyDLL(None).usleep(2_000_000)"
    with ThreadPoolExecutor() as pool:
        running = pool.submit(four.run, f"kept = 40 + rank\n{line}", ranks=[1])
        wait_until(lambda: four.status().ranks[1] == "busy", 5, "a busy rank")
        seen = {}
        while not running.done() and not any(
            each.source == "faulthandler" for each in seen.values()
        ):
            seen = four.stacks([1])
        assert running.result().ok
    assert [each.source for each in seen.values()] == ["faulthandler"]
    assert len(str(seen)) < 10_000
    four.run("kept = 40 + rank")
    assert_kept(four)
