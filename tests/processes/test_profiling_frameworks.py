"""Profiles of ranks that compute with torch or JAX: waits, and the traces of their own profilers."""

import importlib.util
import json

import pytest

from tests.reasons import WITHOUT_TORCH

FORM = {
    "torch": (
        "import time, torch\nimport torch.distributed as dist\n"
        "dist.init_process_group()\na = torch.ones(100, 100)"
    ),
    "jax": "import time, jax\nstep = jax.jit(lambda x: x @ x)\na = jax.numpy.ones((100, 100))",
}
WORK = {
    "torch": """for step in range(40):
    if rank == 1:
        time.sleep(0.02)
    b = a @ a
    dist.all_reduce(b)
""",
    "jax": "for _ in range(40):\n    step(a).block_until_ready()\n",
}
SEEN = {"torch": "aten::mm", "jax": "PjitFunction(<lambda>)"}
WITHOUT = {
    "torch": pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason=WITHOUT_TORCH),
    "jax": pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="without jax"),
}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[mark, *([pytest.mark.slow] if kind == "torch" else [])])
        for kind, mark in WITHOUT.items()
    ],
)
def test_traces_of_all_ranks_come_on_one_clock(start, tmp_path, monkeypatch, kind):
    # torch makes a folder for its compiler with the first profile.
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    cluster, path = start("localhost:2"), tmp_path / "trace.json"
    assert cluster.run(FORM[kind]).ok
    with cluster.begin_profile(mode=kind) as profiling:
        assert cluster.run(WORK[kind], label=7).ok
    profiling.end().write_trace(path)
    events = json.loads(path.read_bytes())["traceEvents"]
    cells = [event for event in events if (event.get("cat"), event["name"]) == ("cell", "In[7]")]
    begin = min(event["ts"] for event in cells)
    end = max(event["ts"] + event["dur"] for event in cells)
    seen = [event for event in events if event["name"] == SEEN[kind]]
    assert len({event["pid"] for event in seen}) == 2
    assert all(begin - 5_000 < event["ts"] < end + 5_000 for event in seen), "in microseconds"


@WITHOUT["torch"]
@pytest.mark.slow
def test_who_waits_in_torch_is_told_by_samples(start):
    cluster = start("localhost:2")
    assert cluster.run(FORM["torch"]).ok
    with cluster.begin_profile() as profiling:
        assert cluster.run(WORK["torch"], label=7).ok
    found = profiling.end().slowness
    assert (found.ranks, found.place.site) == ((1,), "In[7]:3")
