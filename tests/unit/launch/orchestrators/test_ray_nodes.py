import pytest

from jupyter_dist.model.spec.batch import JobCause

pytest.importorskip("ray", reason="ray is not installed: jupyter-dist[ray]")


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (
            "The actor is dead because its worker process has died. Its placement group was removed.",
            JobCause.CANCELLED,
        ),
        ("The actor died because its node has died. Node Id: 7", JobCause.NODE_FAIL),
        ("The actor died because it ran out of memory", JobCause.OUT_OF_MEMORY),
        ("something else", JobCause.FAILED),
    ],
)
def test_what_ray_says_of_an_actor_has_a_cause(said, cause):
    from jupyter_dist.launch.orchestrators.ray_nodes import read_loss

    loss = read_loss(3, f"The actor died unexpectedly before finishing this task.\n{said}")
    assert (loss.worker, loss.cause) == (3, cause)
    assert "\n" not in loss.words
