import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.options.grant_options import DEFAULT_ACTS, DEFAULT_S


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("agent", ("allow", DEFAULT_ACTS, DEFAULT_S)),
        ("agent --for 30m --may run,heal", ("allow", "run,heal", 1800.0)),
        ("--revoke", ("revoke", 0)),
        ("--revoke 2", ("revoke", 2)),
    ],
)
def test_a_grant_is_given_or_taken_back(run, cluster, line, asked):
    assert run(f"%dist_allow {line}").success
    assert cluster.calls == [asked]


def test_the_token_is_told_to_the_person(run, cluster):
    told = run("%dist_allow agent").text
    assert ("the-token" in told, "--revoke 1" in told) == (True, True)


def test_without_a_word_grants_are_listed(run, cluster):
    told = run("%dist_allow").text
    assert ("grant 2: run" in told, "heal by x" in told, cluster.calls) == (True, True, [])


@pytest.mark.parametrize(
    "line", ["someone", "agent --for 0", "agent --for soon", "--revoke 0", "--revoke x"]
)
def test_mistakes_are_errors(run, cluster, line):
    assert isinstance(run(f"%dist_allow {line}").error_in_exec, UsageError)
    assert cluster.calls == []
