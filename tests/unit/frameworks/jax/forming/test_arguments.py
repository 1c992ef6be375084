"""Arguments of jax.distributed.initialize, and the variables behind them."""

import pytest

from jupyter_dist.errors import FrameworkError, UsageError
from jupyter_dist.frameworks.jax.forming.arguments import InitializeRequest, complete, read_wish
from jupyter_dist.model.hosts.rank import RankInfo

INFO = RankInfo(2, 4, 0, 2, 1, "b")


def detect(address, count, process_id, devices, method, timeout_s):
    """Answer as JAX's own detection does: what is given stays."""
    if method != "slurm":
        raise FrameworkError(f"no {method}")
    assert timeout_s == 300
    found = (address or "a:1", 9 if count is None else count, 8 if process_id is None else 1)
    return (*found, [0] if devices is None else devices)


def read(environ=None, **given):
    return read_wish(given, environ or {}, INFO, detect)


def test_without_arguments_a_process_is_a_rank():
    assert read() == InitializeRequest(process_id=2, num_processes=4)


def test_arguments_win_over_variables():
    environ = {
        "JAX_COORDINATOR_ADDRESS": "b:2",
        "JAX_COORDINATOR_BIND_ADDRESS": "[::]:2",
        "JAX_COORDINATOR_PORT": "77",
        "JAX_LOCAL_DEVICE_IDS": "0,1",
        "JAX_PARTITION_INDEX": "3",
    }
    wish = read(environ)
    assert (wish.coordinator_address, wish.bind_address, wish.port) == ("b:2", "[::]:2", "77")
    assert (wish.local_device_ids, wish.partition_index) == ((0, 1), 3)
    wish = read(
        environ,
        coordinator_address="a:1",
        coordinator_bind_address="c:3",
        local_device_ids=2,
        partition_index=0,
    )
    assert (wish.coordinator_address, wish.bind_address) == ("a:1", "c:3")
    assert (wish.local_device_ids, wish.partition_index) == ((2,), 0)


def test_the_old_names_of_partitions_are_read():
    assert read(slice_index=5).partition_index == 5
    assert read({"JAX_SLICE_INDEX": "6"}).partition_index == 6


def test_integers_of_numpy_are_taken():
    numpy = pytest.importorskip("numpy")
    wish = read(process_id=numpy.int64(1), local_device_ids=[numpy.int32(3)])
    assert (wish.process_id, wish.local_device_ids) == (1, (3,))


@pytest.mark.parametrize("method", [None, "jupyter-dist"])
def test_our_own_method_is_what_is_done_anyhow(method):
    assert read(cluster_detection_method=method) == read()


def test_a_method_that_is_asked_for_by_name_is_used():
    wish = read(cluster_detection_method="slurm", num_processes=4)
    assert (wish.coordinator_address, wish.num_processes, wish.process_id) == ("a:1", 4, 8)
    assert wish.local_device_ids == (0,)


def test_a_method_that_is_switched_off_needs_all():
    with pytest.raises(UsageError, match=r"num_processes.* process_id .*deactivate"):
        read(cluster_detection_method="deactivate", coordinator_address="a:1")
    given = {"coordinator_address": "a:1", "num_processes": 4, "process_id": 1}
    assert read(cluster_detection_method="deactivate", **given).process_id == 1


@pytest.mark.parametrize(
    ("given", "environ", "words"),
    [
        ({"process_id": "1"}, {}, "process_id is '1', a str"),
        ({"num_processes": 4.0}, {}, "num_processes is 4.0, a float"),
        ({"local_device_ids": "0"}, {}, "local_device_ids: '0'"),
        ({"local_device_ids": [0.5]}, {}, r"local_device_ids: \[0.5\]"),
        ({"coordinator_address": "a"}, {}, "coordinator_address: address 'a'"),
        ({"coordinator_bind_address": "::1"}, {}, "coordinator_bind_address: address '::1'"),
        ({}, {"JAX_LOCAL_DEVICE_IDS": "a"}, "JAX_LOCAL_DEVICE_IDS is 'a'"),
        ({}, {"JAX_COORDINATOR_PORT": "99999"}, "JAX_COORDINATOR_PORT is '99999'"),
        ({}, {"JAX_PARTITION_INDEX": "-1"}, "JAX_PARTITION_INDEX is '-1'"),
    ],
)
def test_what_cannot_be_read_says_what_is_accepted(given, environ, words):
    with pytest.raises(UsageError, match=words):
        read(environ, **given)


def test_jax_is_told_all_that_it_would_look_for_and_what_only_it_knows_stays():
    given = {"process_id": None, "shutdown_timeout_seconds": 5, "new": 1}
    wish = InitializeRequest(process_id=2, num_processes=4, local_device_ids=(0,))
    assert complete(given, wish, "10.0.0.1:7") == {
        "coordinator_address": "10.0.0.1:7",
        "num_processes": 4,
        "process_id": 2,
        "local_device_ids": [0],
        "cluster_detection_method": "deactivate",
        "shutdown_timeout_seconds": 5,
        "new": 1,
    }
