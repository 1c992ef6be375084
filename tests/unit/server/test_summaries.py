from jupyter_dist.model.hosts.topology import EngineView, HostView, Topology
from jupyter_dist.protocol.messages import KernelRole
from jupyter_dist.server.summaries import row_of


def topology(*states, **more):
    engines = tuple(
        EngineView(rank=rank, local_rank=rank, state=state, cell="In[3]" if state == "busy" else "")
        for rank, state in enumerate(states)
    )
    return Topology(cluster="x", hosts=(HostView(name="a", engines=engines),), **more)


def test_a_cluster_is_summed_up():
    seen = topology("busy", "collective", "hung", "lost", "idle", state="ready", note="look")
    kernels = (KernelRole("1-2", "own"),)
    row = row_of(seen, owner="notebook a.ipynb", kernels=kernels)
    assert (row.name, row.state, row.world_size, row.hosts) == ("x", "ready", 5, ("a",))
    assert (row.busy, row.hung, row.lost, row.cell) == (3, 1, 1, "In[3]")
    assert (row.note, row.owner, row.kernels) == ("look", "notebook a.ipynb", kernels)


def test_one_that_does_not_answer_keeps_its_numbers_and_says_so():
    row = row_of(topology("busy", state="ready", note="look"), silence="silent for 12 s")
    assert (row.state, row.note, row.busy) == ("silent", "silent for 12 s", 1)
