from jupyter_dist.cluster.status import ClusterStatus
from jupyter_dist.model.hosts.topology import EngineView, HostView, Topology


def status(*engines):
    hosts = (HostView(name="node-a", engines=engines),)
    return ClusterStatus(Topology(cluster="demo", state="ready", generation=2, hosts=hosts))


IDLE = EngineView(
    rank=0, local_rank=0, pid=4242, state="idle", cpu_percent=12.4, rss_bytes=3 * 2**20
)


def test_states_are_found_by_rank():
    lost = EngineView(rank=1, local_rank=1, state="lost")
    found = status(lost, IDLE)
    assert (found.state, found.ranks) == ("ready", {0: "idle", 1: "lost"})


def test_it_reads_as_a_table():
    head, columns, row = str(status(IDLE)).splitlines()
    assert head == "cluster 'demo': ready, generation 2, 1 ranks on 1 host"
    assert columns.split() == ["rank", "host", "pid", "state", "CPU", "memory"]
    assert row.split() == ["0", "node-a", "4242", "idle", "12%", "3", "MiB"]
    assert columns.index("state") == row.index("idle")
    assert columns.index("host") == row.index("node-a")


def test_a_busy_rank_tells_its_cell_and_a_lost_one_its_reason():
    busy = EngineView(rank=0, local_rank=0, state="busy", cell="In[3]", busy_s=12.3)
    assert str(status(busy)).endswith(" In[3] for 12 s")
    lost = EngineView(rank=0, local_rank=0, state="lost", cell="In[3]", reason="killed")
    assert str(status(lost)).endswith(" killed")
    assert "In[3]" not in str(status(lost))


def test_a_cluster_that_is_gone_still_reads():
    gone = ClusterStatus(Topology(cluster="demo", state="gone"))
    assert str(gone).startswith("cluster 'demo': gone, generation 0, 0 ranks on 0 hosts")


def test_several_hosts_say_where_their_ranks_are_reached():
    here = HostView(
        name="a", state="up", address="10.0.0.1", interface="eth0", cpu_count=8, engines=(IDLE,)
    )
    gone = HostView(name="b", state="lost")
    topology = Topology(cluster="demo", state="ready", generation=2, hosts=(here, gone))
    lines = str(ClusterStatus(topology)).splitlines()
    assert lines[1] == "host a: up, rank 0, 10.0.0.1 on eth0, 8 cores"
    assert lines[2].startswith("host b: lost")


def test_hosts_that_could_not_come_by_every_address_say_by_which_they_came():
    came = {"home_address": "10.0.0.9", "failed_addresses": ("10.1.0.9 silent",)}
    hosts = (
        HostView(name="a", state="up", engines=(IDLE,), **came),
        HostView(name="b", state="up", home_address="10.0.0.9"),
        HostView(name="c", state="up", **came),
    )
    lines = str(ClusterStatus(Topology(cluster="demo", state="ready", hosts=hosts))).splitlines()
    assert (lines[4][:5], lines[4][-25:]) == ("a, c ", "10.0.0.9; 10.1.0.9 silent")
    assert lines[5].split()[0] == "rank"


def test_the_job_stands_before_what_needs_attention():
    topology = Topology(cluster="demo", note="it ends", job="Slurm job 12, RUNNING")
    assert str(ClusterStatus(topology)).splitlines()[1:3] == ["Slurm job 12, RUNNING", "it ends"]
