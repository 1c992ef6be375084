import atexit

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from jupyter_dist.magics import extension
from jupyter_dist.magics.spmd import AutoSpmd


def test_loading_twice_registers_once(shell):
    extension.load(shell)
    transformers = [t for t in shell.input_transformers_cleanup if isinstance(t, AutoSpmd)]
    assert len(transformers) == 1
    assert len(shell.Completer.custom_matchers) == 2


def test_unloading_takes_everything_away_and_the_cluster_goes_on(run, shell, world):
    run("%dist_start")
    assert run("%unload_ext jupyter_dist").success
    assert "dist_start` not found" in run("%dist_start").text
    assert not [t for t in shell.input_transformers_cleanup if isinstance(t, AutoSpmd)]
    assert shell.Completer.custom_matchers == []
    assert list(world.clusters) == ["demo"]
    run("%load_ext jupyter_dist")
    assert run("%dist_status").text == f"{world.clusters['demo'].status()}\n"


def test_two_shells_have_each_their_own_cluster(run, shell, world):
    run("%dist_start --name first")
    config = Config()
    config.HistoryManager.enabled = False
    other = InteractiveShell(config=config)
    extension.load(other)
    other.run_line_magic("dist_start", "--name second")
    assert run("%dist_status").text == f"{world.clusters['first'].status()}\n"
    other.restore_sys_module_state()
    atexit.unregister(other.atexit_operations)


def test_the_help_of_a_magic_shows_options_and_an_example(run):
    text = run("%dist_start?").text
    for part in ("Start a cluster", "--comm auto|ring|gloo|nccl|none", "-n 4 --name"):
        assert part in text
    assert "--setup" in run("%%spmd?").text
