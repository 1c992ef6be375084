import json

import pytest
from fakes.ras_server import communicator, missing, rank, report, text

from jupyter_dist.model.ras import RasReport, explain_ras, merge_reports
from jupyter_dist.model.ras_reading import read_ras

FOUR = {("10.0.0.1", 100 + number): number for number in range(4)}


def told(*communicators, rank_of=FOUR):
    return explain_ras(read_ras(json.dumps(report(*communicators))), rank_of)


def told_in_text(rows, errors="", warnings="", rank_of=FOUR):
    return explain_ras(read_ras(text(rows, errors, warnings)), rank_of)


def four(*times, **more):
    return [rank(number, AllReduce=each, **more) for number, each in enumerate(times)]


# --- what is said ---


def test_nothing_is_said_while_all_have_launched_the_same():
    assert told(communicator(four(7, 7, 7, 7))) == ""
    assert told() == ""


def test_who_has_launched_less_is_named():
    assert told(communicator(four(6650, 6650, 6650, 6649))) == (
        "NCCL says: ranks 0-2 have launched AllReduce 6650 times, rank 3 6649 times"
    )


def test_each_collective_is_counted_by_itself():
    ranks = [*four(1, 1, 1), rank(3, AllGather=1)]
    assert told(communicator(ranks)) == (
        "NCCL says: rank 3 has launched AllGather 1 time, ranks 0-2 0 times; "
        "ranks 0-2 have launched AllReduce 1 time, rank 3 0 times"
    )


def test_of_many_different_counts_only_the_ends_are_told():
    rank_of = {("10.0.0.1", 100 + number): number for number in range(8)}
    assert told(communicator(four(*range(8, 0, -1))), rank_of=rank_of) == (
        "NCCL says: rank 0 has launched AllReduce 8 times, others fewer, rank 7 1 time"
    )


def test_ranks_are_called_as_in_the_cluster_and_not_as_in_the_communicator():
    pair = [rank(0, pid=103, AllReduce=5), rank(1, pid=102, AllReduce=4)]
    assert told(communicator(pair)) == (
        "NCCL says: rank 3 has launched AllReduce 5 times, rank 2 4 times"
    )


def test_communicators_of_other_processes_do_not_count():
    strangers = [rank(0, pid=1, AllReduce=5), rank(1, pid=2, AllReduce=4)]
    assert told(communicator(strangers)) == ""


def test_the_same_pid_on_another_host_is_another_process():
    ranks = [rank(0, AllReduce=5), rank(1, host="10.0.0.2", AllReduce=4)]
    assert told(communicator(ranks)) == (
        "NCCL says: rank 0 has launched AllReduce 5 times, 1 rank 4 times"
    )


def test_who_does_not_answer_is_told_and_who_is_given_up():
    assert (
        told(communicator(four(7, 7, 7), [missing(3)])) == "NCCL says: rank 3 has not answered it"
    )
    assert told(communicator(four(7, 7), [missing(2), missing(3, dead=True)])) == (
        "NCCL says: rank 3 has been out of its reach for a minute; rank 2 has not answered it"
    )


def test_who_forms_a_communicator_is_told():
    ranks = [rank(number, init_state=7) for number in range(3)]
    assert told(communicator(ranks, [missing(3, unresponsive=False)])) == (
        "NCCL says: rank 3 is not in a communicator that ranks 0-2 are in; "
        "ranks 0-2 are still forming a communicator of 4"
    )


def test_errors_are_told_with_their_kind():
    ranks = [rank(0), rank(1, async_error=6), rank(2, async_error=6), rank(3, init_state=2)]
    assert told(communicator(ranks)) == (
        "NCCL says: rank 3 has not formed a communicator (system error); "
        "ranks 1-2 have an error (remote process error)"
    )
    assert told(communicator([*four(1, 1, 1), rank(3, AllReduce=1, async_error=99)])) == (
        "NCCL says: rank 3 has an error (unknown error)"
    )


def test_who_has_aborted_is_told_and_not_how_often_it_has_launched():
    ranks = [rank(0, AllReduce=9, ended="abort"), *four(9, 9, 8)[1:], rank(3, AllReduce=8)]
    assert told(communicator(ranks)) == (
        "NCCL says: rank 0 has aborted a communicator that ranks 1-3 are in"
    )
    assert told(communicator([*four(1, 1, 1), rank(3, ended="finalize")])) == (
        "NCCL says: rank 3 is leaving a communicator that ranks 0-2 are in"
    )
    assert told(communicator(four(4, 3, 2, 1, ended="abort"))) == "", "all do the same"


def test_of_many_facts_the_first_are_told():
    pairs = [
        communicator([rank(0, AllReduce=n + 1), rank(1, AllReduce=n)], key=str(n)) for n in range(5)
    ]
    said = told(*pairs)
    assert said.count("launched") == 3
    assert said.endswith("; 2 more like this")


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


MISMATCH = ((0, 1, 4, "RUNNING", "MISMATCH"),)


def test_the_text_names_who_has_launched_less():
    warnings = """\
#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different AllReduce operation counts
  3 ranks have launched up to operation 6650
  Rank 3 has launched up to operation 6649 -- GPU 3 managed by process 103 on node 10.0.0.1

"""
    assert told_in_text(MISMATCH, warnings=warnings) == (
        "NCCL says: ranks 0-2 have launched AllReduce 6650 times, rank 3 6649 times"
    )


def test_the_text_of_2_24_counts_all_collectives_together():
    warnings = """\
#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different collective operation counts
  6 ranks have launched up to operation 6650
  2 ranks have launched up to operation 6649
  Rank 2 -- GPU 2 managed by process 102 on node 10.0.0.1
  Rank 3 -- GPU 0 (NVML 3) managed by process 103 on node 10.0.0.1

"""
    rank_of = {("10.0.0.1", 100 + number): number for number in range(8)}
    rows = ((0, 1, 8, "RUNNING", "MISMATCH"),)
    assert told_in_text(rows, warnings=warnings, rank_of=rank_of) == (
        "NCCL says: ranks 0-1,4-7 have launched 6650 collectives, ranks 2-3 6649"
    )


def test_ranks_that_the_text_does_not_name_are_counted():
    warnings = """\
#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different AllGather operation counts
  2 ranks have launched up to operation 8
  2 ranks have not launched any operations

  Communicator ranks have different AllReduce operation counts
  3 ranks have not launched any operations
  Rank 1 has launched up to operation 2 -- GPU 1 managed by process 101 on node 10.0.0.1

"""
    assert told_in_text(MISMATCH, warnings=warnings) == (
        "NCCL says: rank 1 has launched AllReduce 2 times, ranks 0,2-3 0 times; "
        "2 ranks have launched AllGather 8 times, 2 ranks 0 times"
    )


def test_numbers_of_a_part_of_the_ranks_are_not_taken_for_those_of_the_cluster():
    warnings = """\
#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different AllReduce operation counts
  2 ranks have launched up to operation 8
  Rank 0 has launched up to operation 7 -- GPU 2 managed by process 102 on node 10.0.0.1

"""
    rows = ((0, 1, 3, "RUNNING", "MISMATCH"),)
    assert told_in_text(rows, warnings=warnings) == (
        "NCCL says: 2 ranks have launched AllReduce 8 times, rank 2 7 times"
    )


def test_the_text_names_who_is_missing():
    errors = """\
INCOMPLETE
  Missing communicator data from 1 job process
  Process 103 on node 10.0.0.1 managing GPU 3

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 3 -- GPU 3 managed by process 103 on node 10.0.0.1

"""
    rows = ((0, 1, 4, "RUNNING", "INCOMPLETE"),)
    assert told_in_text(rows, errors) == "NCCL says: rank 3 has not answered it"
    dead = errors.replace("INCOMPLETE\n  Missing communicator data from 1 job process", "DEAD", 1)
    assert told_in_text(rows, dead) == ("NCCL says: rank 3 has been out of its reach for a minute")
    older = """\
#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 2 ranks
  The missing ranks: 1,3

"""
    assert told_in_text(rows, older) == "NCCL says: ranks 1,3 have not answered it"


def test_the_text_names_states_and_errors():
    errors = """\
#0-0 (cf264af53edbe986) ERROR
  Asynchronous errors on 2 ranks
  2 ranks reported Remote process error
  Rank 0 -- GPU 0 managed by process 100 on node 10.0.0.1
  Rank 1 -- GPU 1 managed by process 101 on node 10.0.0.1

"""
    warnings = """\
#0-0 (cf264af53edbe986) MISMATCH
  Communicator ranks have different status
  3 ranks have status RUNNING
  Rank 3 has status ABORT -- GPU 3 managed by process 103 on node 10.0.0.1

"""
    rows = ((0, 1, 4, "ABORT", "ERROR,MISMATCH"),)
    assert told_in_text(rows, errors, warnings) == (
        "NCCL says: ranks 0-1 have an error (remote process error); "
        "rank 3 has aborted a communicator that ranks 0-2 are in"
    )


def test_who_says_nothing_of_a_communicator_is_not_in_it():
    warnings = """\
#0-0 (9e17999afaa87dbb) MISMATCH
  Communicator ranks have different status
  3 ranks have status NOCOMM
  Rank 1 has status INIT -- GPU 1 managed by process 101 on node 10.0.0.1

"""
    assert told_in_text(((0, 1, 4, "INIT", "MISMATCH"),), warnings=warnings) == (
        "NCCL says: ranks 0,2-3 are not in a communicator that rank 1 is in; "
        "rank 1 is still forming a communicator of 4"
    )


def test_communicators_that_are_being_formed_stand_in_the_table_only():
    rows = ((0, 2, 4, "RUNNING", "OK"), (1, 1, 4, "INIT", "OK"))
    assert told_in_text(rows) == "NCCL says: ranks 0-3 are still forming a communicator of 4"


def test_a_healthy_text_says_nothing():
    assert told_in_text(((0, 8, 4, "RUNNING", "OK"),)) == ""
    assert read_ras(text(())).version == "2.26.2"


def test_a_text_of_absurd_numbers_is_read_in_time():
    rows = ((0, 99_999_999, 99_999_999, "RUNNING", "OK"), (1, 99_999_999, 0, "RUNNING", "OK"))
    assert read_ras(text(rows)).communicators is not None
