"""What one rank says of itself: also that its JAX cannot be imported, however that shows."""

import pytest

from jupyter_dist.errors import FrameworkError
from jupyter_dist.frameworks.jax import private_runtime
from jupyter_dist.frameworks.jax.own_facts import import_jax


def fail_with(monkeypatch, error):
    def find_versions():
        raise error

    monkeypatch.setattr(private_runtime, "find_versions", find_versions)


def test_jax_that_is_missing_is_to_be_installed(monkeypatch):
    fail_with(monkeypatch, ModuleNotFoundError("No module named 'jax'"))
    with pytest.raises(FrameworkError, match=r"No module named 'jax'\. Install it on that host"):
        import_jax()


@pytest.mark.parametrize("error", [AttributeError("no _jax"), RuntimeError("jaxlib is too old")])
def test_jax_that_is_broken_is_told_like_one_that_is_missing(monkeypatch, error):
    fail_with(monkeypatch, error)
    with pytest.raises(FrameworkError, match=f"{type(error).__name__}: {error}.*install jax"):
        import_jax()


def test_an_interrupt_of_the_import_is_no_problem_of_jax(monkeypatch):
    fail_with(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        import_jax()
