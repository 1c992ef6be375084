"""Which errors say that a collective broke off."""

import pytest

from jupyter_dist.frameworks.jax.broken import find_broken, shorten

GLOO = "UNKNOWN: Gloo all-reduce failed: [pair.cc:547] Connection closed by peer [10.0.0.2]:1240"


class JaxRuntimeError(RuntimeError):
    """As JAX names it."""


@pytest.mark.parametrize("kind", [ValueError, RuntimeError, JaxRuntimeError])
def test_errors_of_gloo_are_found_whatever_jax_makes_of_them(kind):
    error = kind(GLOO)
    assert find_broken(error) is error


def test_they_are_found_behind_what_user_code_makes_of_them():
    cause = JaxRuntimeError(GLOO)
    error = KeyError("step")
    error.__cause__ = cause
    assert find_broken(error) is cause
    error = KeyError("step")
    error.__context__ = cause
    assert find_broken(error) is cause
    error.__suppress_context__ = True
    assert find_broken(error) is None


@pytest.mark.parametrize("error", [ValueError("Gloomy"), KeyError(GLOO), ValueError("bug")])
def test_errors_of_user_code_are_not(error):
    assert find_broken(error) is None


def test_it_is_shortened_to_what_people_read():
    assert shorten(JaxRuntimeError(GLOO + "\nmore")) == GLOO.removeprefix("UNKNOWN: ")
    assert len(shorten(JaxRuntimeError("x" * 999))) == 201


class Unspeakable(RuntimeError):
    def __str__(self):
        raise KeyError("no text")


def test_an_error_that_cannot_be_written_out_is_passed_over():
    error = Unspeakable()
    assert find_broken(error) is None
    assert shorten(error) == "<Unspeakable, whose str raised KeyError>"
    assert shorten(ValueError("\n")) == "ValueError"
