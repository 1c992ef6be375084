import argparse

import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.model.command_options import (
    OptionParser,
    add_bench_options,
    bench_arguments,
    read_calls,
    read_count,
)
from jupyter_dist.model.start_options import (
    add_host_options,
    add_start_options,
    host_arguments,
    start_arguments,
)


@pytest.fixture
def start():
    parser = OptionParser(prog="start", example="start")
    add_start_options(parser)
    return lambda line: start_arguments(parser.read(line))


@pytest.fixture
def check():
    parser = OptionParser(prog="check", example="check")
    add_host_options(parser)
    return lambda line: host_arguments(parser.read(line))


def test_nothing_given_is_nothing_handed_over(start, check):
    assert start("") == check("") == {}


def test_where_and_how_is_asked_alike_for_a_start_and_for_a_check(start, check):
    line = "--hostfile h --spec s --python p --ssh 'ssh -F x' --interface ib0 --tunnel"
    given = {"hostfile": "h", "spec": "s", "python": "p", "ssh": "ssh -F x", "interface": "ib0"}
    assert start(line) == check(line) == {**given, "tunnel": True}
    assert start("--hosts 'n[1-2]:8'") == check("--hosts 'n[1-2]:8'") == {"hosts": "n[1-2]:8"}


def test_a_number_of_ranks_means_this_machine(start):
    assert start("-n 3 --install --wheelhouse w") == {
        "hosts": "localhost:3",
        "install": True,
        "wheelhouse": "w",
    }


def test_what_comm_is_and_whether_devices_are_shared_is_handed_over(start):
    assert start("--comm nccl --oversubscribe") == {"comm": "nccl", "oversubscribe": True}


@pytest.mark.parametrize("line", ["-n 1 --hosts a", "-n 1 --hostfile f", "--hosts a --hostfile f"])
def test_hosts_are_named_in_one_way_only(start, line):
    with pytest.raises(UsageError, match="not allowed with argument"):
        start(line)


@pytest.mark.parametrize("line", ["-n 1", "--install", "--wheelhouse w", "--name x"])
def test_a_check_takes_nothing_but_where_and_how(check, line):
    with pytest.raises(UsageError, match="unrecognized arguments"):
        check(line)


def test_options_and_their_values_are_no_positionals():
    parser = OptionParser(prog="x", example="x")
    parser.add_argument("name")
    parser.add_argument("--dir")
    parser.add_argument("--all", action="store_true")
    assert parser.positionals(["--dir", "/d", "a", "--all", "b", "--dir"]) == ["a", "b"]
    assert parser.positionals(["--dir", "--all", "a"]) == ["a"], "a value, however it looks"


@pytest.mark.parametrize(
    ("line", "meant"),
    [("--nam x", "--name"), ("--lauch=ssh", "--launch"), ("--zzz 1", ""), ("4 5", "")],
)
def test_an_option_with_a_slip_is_answered_with_the_one_that_is_meant(line, meant):
    parser = OptionParser(prog="%x", example="%x --name a")
    parser.add_argument("--name")
    parser.add_argument("--launch")
    with pytest.raises(UsageError) as raised:
        parser.read(line)
    assert ("Did you mean" in str(raised.value)) == bool(meant)
    assert f"Did you mean {meant}?" in str(raised.value) or not meant


def test_every_option_but_help_stands_in_the_table_in_one_column():
    parser = OptionParser(prog="x", example="x", add_help=True)
    assert parser.table() == ""
    parser.add_argument("-n", metavar="N", help="how many")
    parser.add_argument("--comm", choices=("auto", "ring"), help="which one")
    parser.add_argument("--all", action="store_true", help="all of them")
    parser.add_argument("file", nargs="?", metavar="FILE", help="where")
    assert [line.split() for line in parser.table().splitlines()] == [
        ["-n", "N", "how", "many"],
        ["--comm", "auto|ring", "which", "one"],
        ["--all", "all", "of", "them"],
        ["[FILE]", "where"],
    ]
    columns = ("how", "which", "all of", "where")
    found = zip(parser.table().splitlines(), columns, strict=True)
    assert {line.index(column) for line, column in found} == {len("    --comm auto|ring  ")}


def test_a_mistake_names_what_is_accepted_and_not_help():
    parser = OptionParser(prog="x", example="x --all", add_help=True)
    with pytest.raises(UsageError, match="It takes no options"):
        parser.read("--name a")
    parser.add_argument("--all", action="store_true")
    with pytest.raises(UsageError, match=r"Options: --all\. Example: x --all"):
        parser.read("--name a")


def test_a_word_before_an_option_with_a_slip_is_not_taken_for_it():
    parser = OptionParser(prog="x", example="x")
    parser.add_argument("--name")
    with pytest.raises(UsageError, match="Did you mean --name"):
        parser.read("a --nam=b")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", {}),
        ("--min 4K --max 1MiB", {"min_bytes": 4096, "max_bytes": 1 << 20}),
        ("--factor 2 --dtype float64", {"factor": 2, "dtype": "float64"}),
        ("--check", {"check": True}),
        ("--no-check", {"check": False}),
        ("--timeout 5m", {"timeout_s": 300.0}),
        ("--ops all_reduce,broadcast", {"ops": ("all_reduce", "broadcast")}),
    ],
)
def test_options_of_a_benchmark_become_its_arguments(line, said):
    parser = OptionParser(prog="x", example="x")
    add_bench_options(parser)
    assert bench_arguments(parser.read(line)) == said


@pytest.mark.parametrize("read", [read_calls, read_count])
def test_a_number_is_1_or_more(read):
    assert (read("1"), read("20")) == (1, 20)
    for text in ("0", "-1", "x", "1.5", ""):
        with pytest.raises(argparse.ArgumentTypeError):
            read(text)
