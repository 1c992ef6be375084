import pytest

from jupyter_dist.model.hosts.topology import HostView, Topology

OF_A_CELL = (
    "--ranks --on --show --timeout --setup --check --background --quiet --on-error --one-answer "
    "--break --break-if --break-rank "
    "--group-outputs --figures --times --no-times --profile --native --no-slowest"
)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("%dist_start --na", "--name"),
        ("%dist_restore run --o", "--objects"),
        ("%dist_bench --no", "--no-check"),
        ("%%spmd --", OF_A_CELL),
        ("%%spmd --on-error i", "interrupt"),
        ("%dist_bench --dtype int6", "int64"),
        ("%dist_start --comm r", "ring"),
        ("%dist_auto o", "on off"),
    ],
)
def test_options_and_their_values_complete(complete, typed, offered):
    assert complete(typed) == set(offered.split())


def test_an_option_given_already_is_not_offered_again(complete):
    assert {"--name", "--keep", "--env", "--comm"} <= complete("%dist_start --")
    assert "--name" not in complete("%dist_start --name a --")


def test_hosts_and_axes_complete_where_ranks_are_chosen(run, cluster, complete, monkeypatch):
    run("%dist_axes data=2")
    seen = Topology(cluster="demo", hosts=(HostView(name="nodeA"), HostView(name="nodeB")))
    monkeypatch.setattr(cluster, "topology", lambda: seen)
    assert complete("%%spmd --on ") == {"data=", "nodeA", "nodeB"}
    assert complete("%dist_pull x --on no") == {"nodeA", "nodeB"}


def test_running_clusters_complete(run, complete):
    run("%dist_start --name weather")
    assert complete("%dist_attach w") == {"weather"}


def test_only_the_line_of_the_magic_completes_as_options(shell, complete):
    shell.Completer.jedi_compute_type_timeout = 0  # what each name is costs most of the time
    found = complete("%%spmd\nx = --")
    assert "--ranks" not in found
    assert "print" in found, "names complete there"


def test_the_name_of_a_magic_itself_completes(complete):
    assert "%dist_start" in complete("%dist_sta")


def test_variables_complete_where_a_name_is_wanted(run, complete):
    run("learning_rate = 1")
    assert "learning_rate" in complete("%dist_push learn")
