from unittest.mock import MagicMock

import pytest
from fakes.cluster import replace_modules

from jupyter_dist.cli.__main__ import main
from jupyter_dist.cluster.code.sync import RELOAD_COMMAND
from jupyter_dist.cluster.spec.spec_file import read_spec
from jupyter_dist.model.spec.cluster_spec import HostSpec
from jupyter_dist.views.stages.start_progress import ready_text


def undrawn_view(**_asked):
    return MagicMock(passed_s={})


@pytest.fixture(autouse=True)
def views(monkeypatch):
    """Let nothing be drawn."""
    fakes = {
        "views.cell.cell_output": {"CellOutputView": undrawn_view},
        "views.stages.transfer_bar": {"TransferBar": undrawn_view},
        "views.stages.start_progress": {
            "StartProgressView": undrawn_view,
            "ready_text": ready_text,
        },
    }
    replace_modules(monkeypatch, fakes)


def test_start_says_how_to_attach(dist, kind):
    status, out, _ = dist("start", "-n", "2", "--name", "a", "--env", "K=V", "--keep", "2h")
    assert status == 0
    assert out.startswith("a\n")
    assert "%dist_attach a" in out
    assert kind.started["a"].hosts == "localhost:2"
    assert kind.started["a"].options == {"env": {"K": "V"}, "keep_s": 7200.0}
    assert kind.started["a"].calls == ["detach"], "else it would end with this command"


def test_spec_writes_what_a_start_would_use_and_starts_nothing(dist, kind, tmp_path):
    (tmp_path / "hosts").write_text("localhost slots=2\n")
    (tmp_path / "more.toml").write_text('keep = "2h"\n')
    line = ["spec", "--hostfile", str(tmp_path / "hosts"), "--spec", str(tmp_path / "more.toml")]
    status, out, err = dist(*line, "--name", "demo", "--cwd", str(tmp_path))
    assert (status, err) == (0, "")
    spec = read_spec(out, "out.toml")
    assert spec.hosts == (HostSpec("localhost", 2, launcher="local"),)
    assert (spec.name, spec.keep_s, spec.cwd) == ("demo", 7200.0, str(tmp_path))
    assert kind.started == {}


def test_what_runs_is_named_and_shown_and_stop_ends_one_or_all(dist, kind):
    for name in "abc":
        kind.start(name=name)
    assert dist("list", "--names") == (0, "a\nb\nc\n", "")
    assert dist("status", "a") == (0, "table of a\n", "")
    assert dist("stop", "b") == (0, "stopped b\n", "")
    assert dist("stop", "--all") == (0, "stopped a\nstopped c\n", "")
    assert kind.started == {}


@pytest.mark.parametrize(
    ("argv", "given"),
    [
        ([], "command"),
        (["frob"], "'frob'"),
        (["start", "-n", "0"], "start: argument -n: '0'"),
        (["start", "--frob"], "start: unrecognized arguments: --frob"),
        (["start", "-n", "2", "--hosts", "a"], "--hosts: not allowed with argument -n"),
        (["start", "--hostfile", "x", "--hosts", "a"], "--hosts: not allowed with argument"),
        (["spec", "--hosts", "a:0"], "'0' is not a number of slots"),
        (["spec", "--spec", "/no/such/file"], "spec file '/no/such/file' cannot be read"),
        (["stop", "a", "--all"], "--all"),
        (["stop", "nope"], "'nope'"),
        (["collectives", "--last", "0"], "'0' is not a number of calls"),
        (["timeline"], "FILE"),
        (["stacks", "--nativ"], "--nativ"),
        (["explain", "a", "b"], "b"),
    ],
)
def test_a_command_that_cannot_be_meant_is_one_line_and_status_two(dist, argv, given):
    status, out, err = dist(*argv)
    assert (status, out) == (2, "")
    assert err.startswith("jupyter dist: ")
    assert given in err
    assert err.count("\n") == 1


def test_a_start_that_fails_is_status_one_and_its_lines_stay_lines(dist):
    assert dist("start", "--cwd", "/broken") == (1, "", "jupyter dist: rank 1 did not\ncome\n")


def test_an_interrupt_is_told(dist, demo):
    said = "jupyter dist: it is not waited for\n"
    assert dist("start", "--name", "other", "--cwd", "/long") == (130, "", said)
    demo.problem = KeyboardInterrupt()
    assert dist("stop") == (130, "", "jupyter dist: interrupted\n")


def test_help_is_written_and_ends_well(capsys):
    with pytest.raises(SystemExit) as end:
        main(["start", "--help"])
    assert end.value.code == 0
    assert "--comm {auto,ring,gloo,nccl,none}" in capsys.readouterr().out


def test_sync_copies_and_says_what_to_do_next(dist, demo):
    status, out, err = dist("sync", "mypkg", "src/", "--name", "demo", "--force")
    assert (status, err) == (0, "")
    assert demo.calls == [("sync", ("mypkg", "src/"), True)]
    copied, lost, hint = out.splitlines()
    assert copied.startswith("copied mypkg, src/ (2 files")
    assert lost.startswith("c is lost")
    assert hint.endswith(" sync mypkg src/ --reload")


def test_sync_with_reload_runs_the_cell_for_it(dist, demo):
    status, out, _ = dist("sync", "mypkg", "--reload")
    assert status == 0
    assert demo.calls[0] == ("sync", ("mypkg",), False)
    assert demo.calls[1].code == RELOAD_COMMAND
    assert "imported already" not in out
