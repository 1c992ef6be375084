import msgspec
import pytest

from jupyter_dist.cluster.checkpoints import (
    OnCheckpoints,
    finish_saving,
    list_here,
    look,
    restore_cell,
    restoring,
    resuming,
    save_cell,
    saving,
)
from jupyter_dist.cluster.result import RankResult, SpmdResult
from jupyter_dist.errors import DistError, RankRaised, UsageError
from jupyter_dist.model.checkpoint_report import REPORT_MIME, RankRestored, RankSaved
from jupyter_dist.model.checkpoint_request import LookRequest, RestoreRequest, SaveRequest
from jupyter_dist.model.checkpoint_table import CheckpointSeen, RankFound
from jupyter_dist.model.topology import EngineView, HostView, Topology
from jupyter_dist.protocol.messages import ErrorInfo, Output

SAVED = RankSaved("/d/run", "/d/run/step-00000003", 3, 64, 0.5, ("w",))
RESTORED = RankRestored("/d/run/step-00000003", 3, 64, 0.5, ("w",))
USUAL = {"directory": "/d", "everything": False, "keep_last": None, "wait": True, "cache": None}
ERROR = ErrorInfo("CheckpointNotFound", "nothing is there")


def engine(rank, state="idle"):
    return EngineView(rank=rank, local_rank=0, state=state)


class FakeSession(OnCheckpoints):
    """Two hosts of two ranks; every rank tells what it is given, and nothing runs."""

    def __init__(self, told, states=("idle",) * 4):
        self._told, self._states, self.ran = told, states, []

    def run(self, code, ranks=None, *, label=1):
        self.ran.append((code, ranks))
        told = self._told(code) if callable(self._told) else self._told
        return SpmdResult([tell(rank, told) for rank in ranks or range(4)])

    def topology(self):
        first, second = ([engine(r, self._states[r]) for r in pair] for pair in ((0, 1), (2, 3)))
        hosts = (HostView(name="a", engines=first), HostView(name="b", engines=second))
        return Topology(cluster="x", hosts=hosts)


def tell(rank, told):
    if isinstance(told, ErrorInfo):
        return RankResult(rank=rank, status="raised", error=told)
    displays = (Output("display", data={"text/plain": "else"}),)
    if told is not None:
        displays += (Output("display", data={REPORT_MIME: msgspec.to_builtins(told)}),)
    return RankResult(rank=rank, status="ok", displays=displays)


def called(cell):
    """Run a cell without the package; gives (function, what it was called with)."""
    seen = []
    module = type("module", (), {})()
    for name in ("save", "restore", "look"):
        setattr(module, name, lambda text, name=name: seen.append((name, text)))
    names = {"__builtins__": {"__import__": lambda _name, fromlist: fromlist and module}}
    before = set(names)
    exec(cell, names)
    assert set(names) == before, "a name stays on the ranks"
    ((name, text),) = seen
    return name, text


def test_a_cell_carries_what_is_to_be_saved_and_leaves_no_name():
    given = {**USUAL, "keep_last": 2, "wait": False, "cache": "/c"}
    request = saving("run", "w, step w", **given)
    expected = SaveRequest(
        directory="/d/run", names=("w", "step"), keep_last=2, is_background=True, cache="/c"
    )
    assert request == expected
    name, text = called(save_cell(request))
    assert (name, msgspec.json.decode(text, type=SaveRequest)) == ("save", expected)


def test_quotes_and_line_ends_in_a_directory_survive_the_cell():
    request = restoring("run", directory='/it\'s "here"\n')
    _, text = called(restore_cell(request))
    assert msgspec.json.decode(text, type=RestoreRequest).directory == '/it\'s "here"\n/run'


def test_directories_are_whole_paths_from_where_the_caller_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/alice")
    assert saving("run", "w", **{**USUAL, "directory": None}).directory == (
        f"{tmp_path}/checkpoints/run"
    )
    assert restoring("run", directory="~/kept").directory == "/home/alice/kept/run"
    assert restoring(None, directory="kept").directory == f"{tmp_path}/kept"


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: saving("../x", "w", **USUAL), "checkpoint name '../x'"),
        (lambda: saving("run", "w[0]", **USUAL), r"'w\[0\]' is not the name of a variable"),
        (lambda: saving("run", "w", **{**USUAL, "everything": True}), "Leave one of both out"),
        (lambda: saving("run", "w", **{**USUAL, "keep_last": 0}), "keep last 0"),
        (lambda: restoring(None), "say what to restore"),
        (lambda: restoring("run", step=-1), "step -1"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_runs(ask, said):
    with pytest.raises(UsageError, match=said):
        ask()


def test_saving_gives_what_all_ranks_have_told():
    session = FakeSession(SAVED)
    saved = session.checkpoint("run", ["w"], directory="/d")
    assert (saved.world_size, saved.path, saved.saved) == (4, SAVED.path, ("w",))
    assert session.ran == [(save_cell(saving("run", "w", **USUAL)), None)]


def test_restoring_gives_what_all_ranks_have_told():
    session = FakeSession(RESTORED)
    restored = session.restore("run", directory="/d", step=3, objects=True)
    assert (restored.world_size, restored.restored) == (4, ("w",))
    asked = RestoreRequest(directory="/d/run", step=3, with_objects=True)
    assert session.ran == [(restore_cell(asked), None)]


def test_what_a_rank_raises_is_raised():
    for ask in (
        lambda: FakeSession(ERROR).checkpoint("run", "w"),
        lambda: FakeSession(ERROR).restore("run"),
        lambda: FakeSession(ERROR).checkpoints("/d"),
    ):
        with pytest.raises(RankRaised, match="nothing is there"):
            ask()


def test_a_rank_that_tells_nothing_is_named():
    with pytest.raises(DistError, match="rank 0 ended well, but has not told"):
        FakeSession(None).checkpoint("run", "w")


# --- what there is ---

SEEN = CheckpointSeen(
    id="1", name="run", step=3, path="/d/run/step-00000003", saved_at="", world_size=4, nbytes=1
)


def found(cell):
    request = msgspec.json.decode(called(cell)[1], type=LookRequest)
    return RankFound(request.directory or "/last/run", "/last/run", (SEEN,))


def test_one_rank_of_each_host_is_asked():
    session = FakeSession(found)
    table = session.checkpoints("/d")
    assert session.ran[0][1] == [0, 2]
    assert table.directory == "/d"
    assert [row.hosts for row in table.rows] == [()]


def test_lost_ranks_are_not_asked():
    session = FakeSession(found, ("lost", "idle", "lost", "left"))
    session.checkpoints("/d")
    assert session.ran[0][1] == [1]


def test_where_nobody_lives_nobody_is_asked():
    session = FakeSession(found, ("lost",) * 4)
    with pytest.raises(DistError, match="no rank lives that could look"):
        session.checkpoints("/d")
    assert session.ran == []


def test_without_a_directory_ranks_say_where_was_saved_last():
    session = FakeSession(found, ("idle", "idle", "lost", "idle"))
    table = look(session)
    asked = [ranks for _, ranks in session.ran]
    assert asked[0] == [0, 1, 3], "a rank that is new does not know"
    assert asked[1:] == [[0, 3]], "one of each host reads what is there"
    assert (table.directory, table.newest.step) == ("/last/run", 3)
    assert resuming(FakeSession(found)) == RestoreRequest(directory="/last/run")


def test_a_directory_that_is_named_is_resumed_from_without_a_question():
    session = FakeSession(found)
    assert resuming(session, "/d/run") == RestoreRequest(directory="/d/run")
    assert session.ran == []


def test_where_nothing_was_saved_nothing_can_be_resumed():
    with pytest.raises(UsageError, match=r"has saved variables, so .* --resume DIR"):
        resuming(FakeSession(RankFound("")))


def test_without_a_cluster_this_machine_is_looked_at(tmp_path):
    assert str(list_here(tmp_path)) == f"no checkpoint in {tmp_path}"


def test_what_was_saved_nowhere_is_looked_for_nowhere():
    session = FakeSession(RankFound(""))
    assert (look(session).directory, len(session.ran)) == ("", 1)


def test_the_end_waits_for_what_is_saved_behind_cells_once():
    session = FakeSession(SAVED)
    assert (finish_saving(session), session.ran) == ("", [])
    session.checkpoint("run", "w", wait=False)
    assert finish_saving(session) == ""
    assert ".wait(" in session.ran[-1][0]
    assert finish_saving(session) == ""
    assert len(session.ran) == 2
