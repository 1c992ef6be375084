"""`jax.distributed.initialize()` in cells: no argument is needed, all are honoured, none kills."""

import os
import signal
import socket

import pytest

from tests.facts import assert_tells
from tests.matrix import only
from tests.patience import Spell, Stopwatch

from .leftovers import kill_ranks, pids_of, wait_until
from .listener import Listener, begin
from .ports import free_port
from .results import values

pytest.importorskip("jax")
INIT_WITHIN_S = 1.0
"""The goal is 0.3 s; a quiet machine with two cores takes less than 0.1 s; the time is printed."""
TOLD_WITHIN_S = 10
IMPORT = "import jax\nimport jax.numpy as jnp\nimport numpy as np\n"
PSUM = "jax.pmap(lambda x: jax.lax.psum(x, 'i'), axis_name='i')(jnp.ones(1)).tolist()"
OTHER_CLUSTERS = {
    "SLURM_JOB_ID": "1",
    "SLURM_STEP_NODELIST": "elsewhere",
    "SLURM_NTASKS": "99",
    "SLURM_PROCID": "7",
    "SLURM_LOCALID": "7",
    "SLURM_STEP_NUM_NODES": "9",
    "OMPI_MCA_orte_hnp_uri": "1234.0;tcp://10.255.255.1:5",
    "OMPI_COMM_WORLD_SIZE": "9",
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_LOCAL_RANK": "3",
    "KUBERNETES_SERVICE_HOST": "10.255.255.1",
}
PROXIES = dict.fromkeys(("http_proxy", "https_proxy", "grpc_proxy"), "http://10.255.255.1:3128")


def problems(result):
    return {(one.status, f"{one.error.ename}: {one.error.evalue}") for one in result if one.error}


@pytest.fixture
def unformed(four):
    """Four ranks with JAX, which nobody has formed."""
    code = (
        "import sys\n"
        "if 'jax' in sys.modules:\n"
        "    sys.modules['jax'].distributed.shutdown()\n"
        "    sys.modules['jax'].config.update('jax_platforms', None)\n"
    )
    assert four.run(code).ok
    assert four.run(f"{IMPORT}initialize = jax.distributed.initialize").ok
    return four


# --- the plain way -------------------------------------------------------------------------------


def test_the_bare_call_forms_all_ranks_and_pmap_and_jit_sum_over_them(start):
    cluster = start("localhost:4")
    watch = Stopwatch()
    result = cluster.run(
        f"import time\n{IMPORT}"
        "start_s = time.perf_counter()\n"
        "jax.distributed.initialize()\n"
        "init_s = time.perf_counter() - start_s\n"
        "jax.device_count(), jax.local_device_count(), jax.process_index()"
    )
    spell = watch.spell()
    assert values(result) == [f"(4, 1, {rank})" for rank in range(4)]
    assert values(cluster.run(PSUM)) == ["[4.0]"] * 4
    mesh = (
        "mesh = jax.make_mesh((4,), ('i',))\n"
        "place = jax.NamedSharding(mesh, jax.P('i'))\n"
        "x = jax.make_array_from_process_local_data(place, np.full((1, 2), rank, np.float32))\n"
    )
    total = "np.asarray(jax.jit(lambda x: x.sum())(x)).item()"
    assert values(cluster.run(mesh + total)) == ["12.0"] * 4
    shards = (
        "add = jax.shard_map(lambda x: jax.lax.psum(x, 'i'), mesh=mesh, in_specs=jax.P('i'),\n"
        "                    out_specs=jax.P())\n"
        "np.asarray(jax.jit(add)(x)).tolist()"
    )
    assert values(cluster.run(shards)) == ["[[6.0, 6.0]]"] * 4
    slowest_s = max(float(text) for text in values(cluster.run("init_s")))
    print(f"jax.distributed.initialize() on 4 ranks, after the import: {slowest_s:.3f} s")
    Spell(slowest_s, min(slowest_s, spell.stalled_s)).assert_less(INIT_WITHIN_S, "the call")


def test_a_cell_that_imports_jax_is_formed_by_itself_and_the_call_accepted_once(start, within):
    cluster = start("localhost:2")
    assert values(cluster.run(f"{IMPORT}jax.device_count()")) == ["2"] * 2
    assert values(cluster.run(f"jax.distributed.initialize()\n{PSUM}")) == ["[2.0]"] * 2
    ((status, text),) = problems(cluster.run("jax.distributed.initialize()"))
    assert status == "raised"
    assert "called once" in text
    assert values(cluster.run(PSUM)) == ["[2.0]"] * 2
    assert values(cluster.run("(jnp.ones(2) + rank).tolist()", ranks=1)) == ["[2.0, 2.0]"]
    processes = pids_of(cluster).values()
    with within(5):  # they do not leave through the barrier of JAX
        cluster.stop()
        wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in processes), 5, "gone")


@pytest.mark.slow
def test_a_cell_that_sets_variables_before_it_imports_jax_is_obeyed(start):
    cluster = start("localhost:2")
    code = (
        "import os\nos.environ['JAX_ENABLE_X64'] = 'true'\n"
        f"{IMPORT}str(jnp.ones(1).dtype), jax.device_count()"
    )
    assert values(cluster.run(code)) == ["('float64', 2)"] * 2
    cluster = start("localhost:2")
    code = f"import os\nos.environ['JAX_ENABLE_X64'] = 'true'\n{IMPORT}"
    assert cluster.run(code).ok
    assert values(cluster.run("jax.device_count()", ranks=0)) == ["2"], "formed at its end"


def test_one_rank_may_use_jax_first_in_the_cell_that_forms_it(start):
    cluster = start("localhost:2")
    code = f"{IMPORT}got = (jnp.ones(1) + 1).item() if rank == 0 else None\ngot"
    assert values(cluster.run(code)) == ["2.0", None]


@pytest.mark.slow
def test_no_jax_leaves_it_to_the_user(start):
    cluster = start("localhost:2", jax="never")
    assert values(cluster.run(f"{IMPORT}jax.device_count()")) == ["1"] * 2


@pytest.mark.slow
def test_jax_may_stand_at_the_start_already(start):
    cluster = start("localhost:2", jax="start")
    formed = "__import__('sys').modules['jax'].distributed.is_initialized()"
    assert values(cluster.run(formed)) == ["True"] * 2
    assert values(cluster.run(f"{IMPORT}jax.distributed.initialize()\n{PSUM}")) == ["[2.0]"] * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("jax", "call"), [("never", "jax.distributed.initialize()\n"), ("auto", "")]
)
def test_inside_other_clusters_and_behind_a_proxy_it_is_still_this_cluster(start, jax, call):
    cluster = start("localhost:2", jax=jax, env=OTHER_CLUSTERS | PROXIES)
    code = f"{IMPORT}{call}jax.process_count(), jax.process_index()"
    assert values(cluster.run(code)) == ["(2, 0)", "(2, 1)"]
    assert values(cluster.run(PSUM)) == ["[2.0]"] * 2
    assert values(cluster.run("'no_grpc_proxy' in __import__('os').environ")) == ["False"] * 2


# --- what was before -----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_cell_that_used_jax_before_is_repaired(unformed):
    assert unformed.run("jnp.ones(1)").ok
    cell = "kept = jnp.arange(3.0) + rank\ninitialize()\n(kept + 1).tolist(), jax.device_count()"
    assert values(unformed.run(cell)) == [
        f"({[rank + 1.0, rank + 2.0, rank + 3.0]}, 4)" for rank in range(4)
    ]


@pytest.mark.slow
def test_the_repair_is_told_where_it_was_done(start):
    cluster = start("localhost:2", jax="never")
    listener = Listener()
    assert cluster.run(f"{IMPORT}kept = jnp.ones(2) * rank", ranks=1).ok
    code = f"{IMPORT}jax.distributed.initialize()\njax.device_count()"
    assert values(cluster.run(code, watcher=listener)) == ["2"] * 2
    assert_tells(listener.text[1], "JAX was used", "rank 1 ")
    assert "was used" not in listener.text[0]
    assert values(cluster.run("(kept + 1).tolist()", ranks=1)) == ["[2.0, 2.0]"]


def test_it_is_formed_again_after_shutdown_and_stale_variables_are_named(unformed):
    make = (
        "mesh = jax.make_mesh((4,), ('i',))\n"
        "place = jax.NamedSharding(mesh, jax.P('i'))\n"
        "x = jax.make_array_from_process_local_data(place, np.full((1,), rank, np.float32))\n"
        "nested = {'deep': [{'x': x}]}\n"
        "local = jnp.ones(2)\n"
        "devices = jax.devices()\n"
    )
    assert unformed.run(f"initialize()\n{make}").ok
    listener = Listener()
    again = "jax.distributed.shutdown()\nwas = jax.distributed.is_initialized()\ninitialize()"
    assert unformed.run(again, watcher=listener).ok
    for rank in range(4):
        assert_tells(listener.text[rank], "nested and x belong", "mesh")
        assert_tells(listener.text[rank], "devices, mesh and place belong", "devices")
        assert "local" not in listener.text[rank].replace("make_array_from_process_local", "")
    assert values(unformed.run("was, (local + 1).tolist()")) == ["(False, [2.0, 2.0])"] * 4
    assert values(unformed.run("np.asarray(x.addressable_data(0)).item() == rank")) == ["True"] * 4
    assert values(unformed.run(PSUM)) == ["[4.0]"] * 4


# --- every argument ------------------------------------------------------------------------------


ARGUMENTS = [
    "num_processes=np.int64(4), process_id=np.int32(rank), local_device_ids=[0]",
    "local_device_ids=0, cluster_detection_method='jupyter-dist', partition_index=rank",
    "initialization_timeout=30, heartbeat_timeout_seconds=10",
    "f'localhost:{port}', 4, rank, [0]",
    "f'127.0.0.1:{port}', coordinator_bind_address=f'0.0.0.0:{port}'",
    "coordinator_bind_address=f'0.0.0.0:{port}'",
    "f'127.0.0.1:{port}', 4, rank, cluster_detection_method='deactivate'",
]


@pytest.mark.parametrize("arguments", only(ARGUMENTS[::3], ARGUMENTS))
def test_arguments_are_honoured(unformed, arguments):
    assert (
        values(unformed.run(f"port = {free_port()}\ninitialize({arguments})\n{PSUM}"))
        == ["[4.0]"] * 4
    )
    if "port" in arguments:
        address = "jax._src.distributed.global_state.coordinator_address.endswith(f':{port}')"
        assert values(unformed.run(address)) == ["True"] * 4
    if "local_device_ids" in arguments:
        flag = "jax.config.read('jax_cuda_visible_devices')"
        assert values(unformed.run(flag)) == ["'0'"] * 4


def test_processes_may_be_numbered_otherwise_than_ranks(unformed):
    code = f"port = {free_port()}\ninitialize(f'127.0.0.1:{{port}}', 4, (rank + 1) % 4)\n"
    index = "jax.process_index(), jax.device_count()"
    assert values(unformed.run(code + index)) == ["(1, 4)", "(2, 4)", "(3, 4)", "(0, 4)"]
    assert values(unformed.run(PSUM)) == ["[4.0]"] * 4


@pytest.mark.slow
def test_a_replaced_rank_gets_its_process_back_and_the_bare_call_leaves_it_so(start):
    cluster = start("localhost:2", jax="never")
    place = f"'127.0.0.1:{free_port()}'"
    options = "process_id=1 - rank, initialization_timeout=40"
    call = f"jax.distributed.initialize({place}, {options})\n"
    index = "jax.process_index(), jax.device_count()"
    assert values(cluster.run(f"{IMPORT}{call}{index}")) == ["(1, 2)", "(0, 2)"]
    kill_ranks(cluster, 0)
    cluster.heal()
    again = f"{IMPORT}jax.distributed.initialize()\n{index}"
    assert values(cluster.run(again)) == ["(1, 2)", "(0, 2)"]
    assert values(cluster.run(PSUM)) == ["[2.0]"] * 2
    assert values(cluster.run(f"jax.distributed.shutdown()\n{call}{PSUM}")) == ["[2.0]"] * 2


@pytest.mark.slow
def test_the_variables_of_jax_are_read(start):
    port = free_port()
    env = {"JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}", "JAX_LOCAL_DEVICE_IDS": "0"}
    cluster = start("localhost:2", env=env)
    assert values(cluster.run(f"{IMPORT}jax.device_count()")) == ["2"] * 2
    state = "jax._src.distributed.global_state.coordinator_address"
    assert values(cluster.run(state)) == [f"'127.0.0.1:{port}'"] * 2


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("num_processes=5", "num_processes is 5, "),
        ("process_id=rank // 2", "process_id is 0 on ranks 0-1, 1 on ranks 2-3"),
        ("process_id='a' if rank == 3 else rank", "Rank 3: process_id is 'a', "),
        ("cluster_detection_method='slurm'", "nothing here"),
        ("nonsense=1", "unexpected keyword argument 'nonsense'"),
    ],
)
def test_bad_arguments_are_errors_on_all_ranks_before_jax_hears_of_them(unformed, arguments, words):
    result = unformed.run(f"initialize({arguments})")
    assert [one.status for one in result] == ["raised"] * 4
    assert len({one.error.evalue for one in result}) == 1
    assert words in result[0].error.evalue


def test_a_call_on_one_rank_only_names_the_others(unformed, within):
    with within(TOLD_WITHIN_S):
        result = unformed.run("if rank == 0: initialize()")
    assert [one.status for one in result] == ["raised", "ok", "ok", "ok"]
    assert "ranks 1-3" in result[0].error.evalue
    assert "jax.distributed.initialize()" in result[0].error.evalue


def test_a_cell_on_some_ranks_only_is_refused(unformed, within):
    with within(TOLD_WITHIN_S):
        ((_status, text),) = problems(unformed.run("initialize()", ranks="1-2"))
    assert_tells(text, "4 ranks", "ranks 1-2 only")


def test_a_rank_that_raises_before_it_releases_the_others(unformed, within):
    with within(TOLD_WITHIN_S):
        result = unformed.run("if rank == 2: 1 / 0\ninitialize()")
    assert [one.status for one in result] == ["peer_failed", "peer_failed", "raised", "peer_failed"]


def test_a_platform_that_does_not_exist_is_an_error_of_the_call(unformed):
    code = "jax.config.update('jax_platforms', 'cpu,quantum')\ninitialize()"
    ((_status, text),) = problems(unformed.run(code))
    assert "jax_platforms names 'quantum'" in text


def test_a_port_in_use_is_a_sentence_and_kills_nobody(unformed):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = unformed.run(f"initialize('127.0.0.1:{port}')")
    texts = problems(result)
    assert len(texts) == 1
    assert f"127.0.0.1:{port}" in str(texts)
    assert "in use" in str(texts)
    assert f"process {os.getpid()} (" in str(texts)
    assert values(unformed.run(f"initialize()\n{PSUM}")) == ["[4.0]"] * 4


def test_an_address_of_the_user_serves_any_number_of_times(unformed):
    call = f"initialize('127.0.0.1:{free_port()}')"
    for _ in range(2):
        code = f"{call}\njax.distributed.shutdown()\n{call}\n{PSUM}"
        assert values(unformed.run(code)) == ["[4.0]"] * 4
        values(unformed.run("jax.distributed.shutdown()"))


def test_an_address_that_nobody_reaches_is_a_sentence(unformed):
    port, other = free_port(), free_port()
    code = f"initialize('127.0.0.1:{port}', coordinator_bind_address='127.0.0.1:{other}')"
    ((_status, text),) = problems(unformed.run(code))
    assert_tells(text, f"127.0.0.1:{port} ", "reached")


@pytest.mark.parametrize(
    ("mode", "call"),
    [
        ("auto", ""),
        pytest.param("never", "jax.distributed.initialize()", marks=pytest.mark.slow),
    ],
)
def test_where_jax_is_missing_on_one_rank_the_import_fails_and_others_are_told(
    start, within, mode, call
):
    cluster = start("localhost:3", jax=mode)
    assert cluster.run("__import__('sys').modules['jax'] = None", ranks=1).ok
    with within(TOLD_WITHIN_S):
        result = cluster.run(f"import jax\n{call}")
    assert result.rank(1).error.ename == "ModuleNotFoundError"
    for rank in (0, 2):
        assert "rank 1" in result.rank(rank).error.evalue.lower()


@pytest.mark.slow
def test_where_jax_is_missing_everywhere_the_cell_may_handle_it(start):
    cluster = start("localhost:2")
    assert cluster.run("__import__('sys').modules['jax'] = None").ok
    code = "try:\n    import jax\nexcept ImportError:\n    jax = 'none'\njax"
    assert values(cluster.run(code)) == ["'none'"] * 2


# --- who waits is never lost ---------------------------------------------------------------------


def test_who_waits_for_a_rank_that_is_busy_can_be_interrupted(unformed, in_background, within):
    code = "import time\nprint('on')\ntime.sleep(60) if rank == 3 else initialize()"
    future = begin(in_background, unformed, code, word="on")
    with within(TOLD_WITHIN_S):
        unformed.interrupt()
        result = future.result(TOLD_WITHIN_S)
    assert {one.status for one in result} == {"interrupted"}
    assert values(unformed.run(f"initialize()\n{PSUM}")) == ["[4.0]"] * 4


@pytest.mark.slow
def test_the_death_of_a_rank_that_is_waited_for_ends_only_it(start, in_background):
    cluster = start("localhost:3", jax="never")
    assert cluster.run(IMPORT).ok
    code = "import time\nprint('on')\ntime.sleep(60) if rank == 2 else jax.distributed.initialize()"
    before = pids_of(cluster)
    future = begin(in_background, cluster, code, word="on")
    os.kill(before[2], signal.SIGKILL)
    result = future.result(TOLD_WITHIN_S)
    assert [one.status for one in result] == ["peer_failed", "peer_failed", "lost"]
    after = pids_of(cluster)
    assert (after[0], after[1]) == (before[0], before[1])
