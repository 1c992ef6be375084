import argparse
import re

import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.options.bench_options import BenchOptions
from jupyter_dist.options.command_options import OptionParser, read_calls, read_count
from jupyter_dist.options.option import add_options, given_options


def test_options_and_their_values_are_no_positionals():
    parser = OptionParser(prog="x", example="x")
    parser.add_argument("name")
    parser.add_argument("--dir")
    parser.add_argument("--all", action="store_true")
    assert parser.positionals(["--dir", "/d", "a", "--all", "b", "--dir"]) == ["a", "b"]
    assert parser.positionals(["--dir", "--all", "a"]) == ["a"], "a value, however it looks"
    parser.add_argument("-p", nargs=2)
    assert parser.places(["-p", "a", "-1", "--dir=/d", "-", "b"]) == [4, 5]


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        *(("--nam x", "--name"), ("a --nam=b", "--name"), ("--lauch=ssh", "--launch")),
        *(("--zzz 1", ""), ("4 5", "")),
        *(("--mode strat", "start"), ("--mode zzz", "")),
    ],
)
def test_an_option_with_a_slip_is_answered_with_the_one_that_is_meant(line, meant):
    parser = OptionParser(prog="%x", example="%x --name a")
    parser.add_argument("--name")
    parser.add_argument("--launch")
    parser.add_argument("--mode", choices=("start", "stop"))
    with pytest.raises(UsageError) as raised:
        parser.read(line)
    found = re.search(r"Did you mean (\S+)\?", str(raised.value))
    assert (found[1] if found else "") == meant


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
    with pytest.raises(UsageError, match=r"--name a\. .* Example: x --all") as caught:
        parser.read("--name a")
    assert "--help" not in str(caught.value)
    parser.add_argument("--all", action="store_true")
    with pytest.raises(UsageError, match=r"Options: --all\. Example: x --all"):
        parser.read("--name a")


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
    add_options(parser, BenchOptions)
    assert given_options(parser.read(line), BenchOptions) == said


@pytest.mark.parametrize("read", [read_calls, read_count])
def test_a_number_is_1_or_more(read):
    assert (read("1"), read("20")) == (1, 20)
    for text in ("0", "-1", "x", "1.5", ""):
        with pytest.raises(argparse.ArgumentTypeError):
            read(text)


def test_what_becomes_of_a_line_without_options_is_nothing_to_the_next_one():
    parser = OptionParser(prog="x", example="x")
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--all", action="store_true")
    first = parser.read("")
    first.paths.append("a")
    first.all = first.line = True
    assert vars(parser.read("")) == vars(parser.read("  ")) == {"paths": [], "all": False}


def test_a_line_without_options_is_refused_each_time_where_one_is_needed():
    parser = OptionParser(prog="x", example="x")
    parser.add_argument("file", metavar="FILE")
    for _ in range(2):
        with pytest.raises(UsageError, match="FILE"):
            parser.read("")
