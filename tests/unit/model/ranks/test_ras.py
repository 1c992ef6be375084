"""What is said of NCCL's answers stands in ras.txt, for people to judge.

To write that file again after a change: REWRITE_GOLDEN=1 python -m pytest tests/unit/model/ranks
"""

import json
import os
from pathlib import Path

import pytest
from fakes.ras_server import communicator, missing, rank, report

from jupyter_dist.model.ranks.ras import RasReport, explain_ras, merge_reports
from jupyter_dist.probe.nccl_ras import read_ras

GOLDEN = Path(__file__).with_name("ras.txt")
FOUR = {("10.0.0.1", 100 + number): number for number in range(4)}


def told(*communicators, rank_of=FOUR):
    return explain_ras(read_ras(json.dumps(report(*communicators))), rank_of)


def four(*times, **more):
    return [rank(number, AllReduce=each, **more) for number, each in enumerate(times)]


# --- what is said ---


CASES = {
    "all the same": four(7, 7, 7, 7),
    "one behind": four(6650, 6650, 6650, 6649),
    "each collective by itself": [*four(1, 1, 1), rank(3, AllGather=1)],
    "of many counts the ends": four(*range(8, 0, -1)),
    "as the cluster counts": [rank(0, pid=103, AllReduce=5), rank(1, pid=102, AllReduce=4)],
    "other processes": [rank(0, pid=1, AllReduce=5), rank(1, pid=2, AllReduce=4)],
    "the same pid elsewhere": [rank(0, AllReduce=5), rank(1, host="10.0.0.2", AllReduce=4)],
    "silent": [*four(7, 7, 7), missing(3)],
    "given up": [*four(7, 7), missing(2), missing(3, dead=True)],
    "forming": [*(rank(n, init_state=7) for n in range(3)), missing(3, unresponsive=False)],
    "errors": [rank(0), *(rank(n, async_error=6) for n in (1, 2)), rank(3, init_state=2)],
    "an unknown error": [*four(1, 1, 1), rank(3, AllReduce=1, async_error=99)],
    "aborted": [rank(0, AllReduce=9, ended="abort"), *four(9, 9, 8)[1:], rank(3, AllReduce=8)],
    "leaving": [*four(1, 1, 1), rank(3, ended="finalize")],
    "all aborted": four(4, 3, 2, 1, ended="abort"),
}


def test_what_is_said_stands_in_one_place():
    lines = []
    for name, members in CASES.items():
        told_nothing = [each for each in members if "unresponsive" in each["status"]]
        ranks = [each for each in members if each not in told_nothing]
        rank_of = {("10.0.0.1", 100 + number): number for number in range(max(4, len(members)))}
        said = told(communicator(ranks, told_nothing), rank_of=rank_of)
        lines.append(f"{name}: {said or 'nothing'}")
    text = "\n".join([*lines, ""])
    if os.environ.get("REWRITE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def test_of_many_facts_the_first_are_told():
    pairs = [
        communicator([rank(0, AllReduce=n + 1), rank(1, AllReduce=n)], key=str(n)) for n in range(5)
    ]
    said = told(*pairs)
    assert said.count("launched") == 3
    assert "; 2 more " in said


def test_the_same_fact_of_two_communicators_is_told_once():
    twice = [communicator(four(2, 2, 2, 1), key=key) for key in "ab"]
    assert told(*twice).count("launched") == 1


def test_what_two_processes_tell_of_a_communicator_counts_once():
    first = read_ras(json.dumps(report(communicator(four(2, 2, 2, 1)))))
    later = read_ras(
        json.dumps(report(communicator(four(9, 9, 9, 9)), communicator(four(1, 1, 1, 0), key="b")))
    )
    merged = merge_reports([RasReport(), first, later])
    assert merged.version == "2.29.1"
    assert [each.ranks[0].counts["AllReduce"] for each in merged.communicators] == [2, 1]


@pytest.mark.parametrize("others", [[], [RasReport("2.28.9")]])
def test_an_nccl_whose_text_is_not_read_is_told_from_when_on_it_would_be(others):
    merged = merge_reports([RasReport(is_too_old=True), *others])
    assert "2.28.7" in explain_ras(merged, FOUR)


def test_what_an_nccl_with_json_says_comes_before_that_another_is_too_old():
    told_in_json = read_ras(json.dumps(report(communicator(four(2, 2, 2, 1)))))
    merged = merge_reports([RasReport(is_too_old=True), told_in_json])
    assert explain_ras(merged, FOUR) == explain_ras(told_in_json, FOUR) != ""


# --- what is read ---


def test_json_is_read_with_everything_that_counts():
    (read,) = read_ras(
        json.dumps(report(communicator(four(3, 3), [missing(2, pid=-1)])))
    ).communicators
    assert (read.key, read.size) == ("0xae94 0xb7e7:0xb824", 3)
    assert (read.ranks[1].host, read.ranks[1].pid) == ("10.0.0.1", 101)
    assert read.ranks[1].counts["AllReduce"] == 3
    assert (read.missing[0].pid, read.missing[0].is_silent) == (0, True)


@pytest.mark.parametrize(
    "said",
    ["", "hello", "{", "{}", '{"communicators": [{"size": 1}]}', "[]", "HTTP/1.1 400 Bad Request"],
)
def test_what_is_no_answer_of_ras_is_not_read(said):
    assert read_ras(said) is None


def test_fields_of_later_releases_are_passed_over():
    said = report(communicator(four(2, 1)))
    said["communicators"][0]["ranks"][0]["status"]["revoked"] = True
    assert "launched" in explain_ras(read_ras(json.dumps(said)), FOUR)
