import msgspec
import pytest

from jupyter_dist.checkpoint.commands import LOOK, RESTORE, SAVE, WAIT
from jupyter_dist.checkpoint.report import RankRestored, RankSaved
from jupyter_dist.checkpoint.table import CheckpointSeen, RankFound
from jupyter_dist.cluster.checkpoints import (
    checkpoint,
    checkpoints,
    finish_saving,
    list_here,
    look,
    restore,
    restoring,
    resuming,
    saving,
)
from jupyter_dist.cluster.result import RankResult, SpmdResult
from jupyter_dist.errors import DistError, RankRaised, UsageError
from jupyter_dist.model.hosts.topology import EngineView, HostView, Topology
from jupyter_dist.options.checkpoint_request import RestoreRequest, SaveRequest
from jupyter_dist.protocol.messages import ErrorInfo

SAVED = RankSaved("/d/run", "/d/run/step-00000003", 3, 64, 0.5, ("w",))
RESTORED = RankRestored("/d/run/step-00000003", 3, 64, 0.5, ("w",))
ERROR = ErrorInfo("CheckpointNotFound", "gone")


def engine(rank, state="idle"):
    return EngineView(rank=rank, local_rank=0, state=state)


class FakeSession:
    """Two hosts of two ranks; every rank tells what it is given, and nothing runs."""

    checkpoint, restore, checkpoints = checkpoint, restore, checkpoints
    is_saving_behind = False

    def __init__(self, told, states=("idle",) * 4):
        self._told, self._states, self.ran = told, states, []

    def run_command(self, command, ranks=None, *, label=1):
        self.ran.append((command, ranks))
        told = self._told(command) if callable(self._told) else self._told
        return SpmdResult([tell(rank, told) for rank in ranks or range(4)])

    def topology(self):
        first, second = ([engine(r, self._states[r]) for r in pair] for pair in ((0, 1), (2, 3)))
        hosts = (HostView(name="a", engines=first), HostView(name="b", engines=second))
        return Topology(cluster="x", hosts=hosts)


def tell(rank, told):
    if isinstance(told, ErrorInfo):
        return RankResult(rank=rank, status="raised", error=told)
    report = msgspec.msgpack.encode(told)
    return RankResult(rank=rank, status="ok", report=report)


def test_a_command_carries_what_is_to_be_saved():
    command = saving("run", "w, step w", directory="/d", keep_last=2, wait=False, cache="/c")
    assert SAVE.read_request(command) == SaveRequest(
        directory="/d/run", names=("w", "step"), keep_last=2, is_background=True, cache="/c"
    )


def test_quotes_and_line_ends_in_a_directory_survive():
    command = restoring("run", directory='/it\'s "here"\n')
    assert RESTORE.read_request(command).directory == '/it\'s "here"\n/run'


def test_directories_are_whole_paths_from_where_the_caller_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/alice")
    saved = SAVE.read_request(saving("run", "w"))
    assert saved.directory == f"{tmp_path}/checkpoints/run"
    for name, given, whole in (
        ("run", "~/kept", "/home/alice/kept/run"),
        (None, "kept", f"{tmp_path}/kept"),
    ):
        assert RESTORE.read_request(restoring(name, directory=given)).directory == whole


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: saving("../x", "w"), "checkpoint name '../x'"),
        (lambda: saving("run", "w[0]"), r"'w\[0\]'"),
        (lambda: saving("run", "w", everything=True), "by name"),
        (lambda: saving("run", "w", keep_last=0), "keep last 0"),
        (lambda: restoring(None), "--dir"),
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
    assert session.ran == [(saving("run", "w", directory="/d"), None)]


def test_restoring_gives_what_all_ranks_have_told():
    session = FakeSession(RESTORED)
    restored = session.restore("run", directory="/d", step=3, objects=True)
    assert (restored.world_size, restored.restored) == (4, ("w",))
    ((command, ranks),) = session.ran
    asked = RestoreRequest(directory="/d/run", step=3, with_objects=True)
    assert (RESTORE.read_request(command), ranks) == (asked, None)


def test_what_a_rank_raises_is_raised():
    for ask in (
        lambda: FakeSession(ERROR).checkpoint("run", "w"),
        lambda: FakeSession(ERROR).restore("run"),
        lambda: FakeSession(ERROR).checkpoints("/d"),
    ):
        with pytest.raises(RankRaised, match="CheckpointNotFound: gone"):
            ask()


def test_a_rank_that_tells_nothing_is_named():
    with pytest.raises(DistError, match=r"^rank 0 "):
        FakeSession(None).checkpoint("run", "w")


SEEN = CheckpointSeen(
    id="1", name="run", step=3, path="/d/run/step-00000003", saved_at="", world_size=4, nbytes=1
)


def found(command):
    request = LOOK.read_request(command)
    return RankFound(request.directory or "/last/run", "/last/run", (SEEN,))


@pytest.mark.parametrize(
    ("states", "asked"), [(("idle",) * 4, [0, 2]), (("lost", "idle", "lost", "left"), [1])]
)
def test_one_rank_that_lives_of_each_host_is_asked(states, asked):
    session = FakeSession(found, states)
    table = session.checkpoints("/d")
    assert session.ran[0][1] == asked
    assert table.directory == "/d"
    assert [row.hosts for row in table.rows] == [()]


def test_where_nobody_lives_nobody_is_asked():
    session = FakeSession(found, ("lost",) * 4)
    with pytest.raises(DistError, match="%dist_heal"):
        session.checkpoints("/d")
    assert session.ran == []


def test_without_a_directory_ranks_say_where_was_saved_last():
    session = FakeSession(found, ("idle", "idle", "lost", "idle"))
    table = look(session)
    asked = [ranks for _, ranks in session.ran]
    assert asked[0] == [0, 1, 3], "a rank that is new does not know"
    assert asked[1:] == [[0, 3]], "one of each host reads what is there"
    assert (table.directory, table.newest.step) == ("/last/run", 3)
    assert resuming(FakeSession(found)) == restoring(None, directory="/last/run")


def test_a_directory_that_is_named_is_resumed_from_without_a_question():
    session = FakeSession(found)
    assert resuming(session, "/d/run") == restoring(None, directory="/d/run")
    assert session.ran == []


def test_where_nothing_was_saved_nothing_can_be_resumed():
    with pytest.raises(UsageError, match="--resume DIR"):
        resuming(FakeSession(RankFound("")))


def test_without_a_cluster_this_machine_is_looked_at(tmp_path):
    assert (list_here(tmp_path).directory, list_here(tmp_path).rows) == (str(tmp_path), ())


def test_what_was_saved_nowhere_is_looked_for_nowhere():
    session = FakeSession(RankFound(""))
    assert (look(session).directory, len(session.ran)) == ("", 1)


def test_the_end_waits_for_what_is_saved_behind_cells_once():
    session = FakeSession(SAVED)
    assert (finish_saving(session), session.ran) == ("", [])
    session.checkpoint("run", "w", wait=False)
    assert finish_saving(session) == ""
    assert session.ran[-1][0].name == WAIT.name
    assert finish_saving(session) == ""
    assert len(session.ran) == 2
