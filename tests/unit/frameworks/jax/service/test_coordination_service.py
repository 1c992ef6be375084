import pytest

from jupyter_dist.frameworks.jax.service.coordination_service import HEARTBEAT_TIMEOUT_S, options

NEWEST = (
    "get_distributed_runtime_service(address: str, num_nodes: int, heartbeat_timeout: int | None"
    " = None, cluster_register_timeout: int | None = None, shutdown_timeout: int | None = None,"
    " recoverable: bool | None = None) -> jaxlib._jax.DistributedRuntimeService"
)
OLDER = NEWEST.replace(", recoverable: bool | None = None", "")
OLDEST = OLDER.replace(
    "heartbeat_timeout: int | None = None",
    "heartbeat_interval: Optional[int] = None, max_missing_heartbeats: Optional[int] = None",
)


def test_a_version_that_knows_it_goes_on_when_ranks_end():
    assert options(NEWEST)["recoverable"] is True


@pytest.mark.parametrize("signature", [OLDER, OLDEST])
def test_a_version_is_not_told_what_it_does_not_know(signature):
    assert "recoverable" not in options(signature)
    assert set(options(signature)) <= {
        name for name in options(NEWEST + OLDEST) if f"{name}:" in signature
    }


@pytest.mark.parametrize("signature", [NEWEST, OLDER, OLDEST])
def test_no_version_ends_ranks_for_their_silence(signature):
    found = options(signature)
    silence_s = found.get("heartbeat_timeout") or (
        found["heartbeat_interval"] * found["max_missing_heartbeats"]
    )
    assert silence_s == HEARTBEAT_TIMEOUT_S
    assert max(value for value in found.values()) < 2**31


def test_an_unknown_version_is_told_nothing():
    assert options("") == {}
