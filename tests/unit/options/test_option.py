from collections.abc import Mapping, Sequence
from typing import Annotated, TypedDict

import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.options.command_options import OptionParser
from jupyter_dist.options.option import Option, add_options, given_options, options_of


class Fields(TypedDict, total=False):
    wait_s: Annotated[float | None, Option("how long")]
    is_quiet: Annotated[bool | None, Option("say less", "--quiet")]
    env: Annotated[Mapping[str, str] | None, Option("variables")]
    words: Annotated[Sequence[str] | None, Option("repeatable", "--word")]
    mode: Annotated[
        str | None,
        Option("quickly", "--fast", action="store_const", const="fast"),
        Option("slowly", "--slow", action="store_const", const="slow"),
    ]
    inner: int | None


def read(line):
    parser = OptionParser(prog="p", example="p")
    add_options(parser, Fields)
    return given_options(parser.read(line), Fields)


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("", {}),
        ("--wait 2m", {"wait_s": 120.0}),
        ("--quiet", {"is_quiet": True}),
        ("--env A=1 B=x=y --env C=", {"env": {"A": "1", "B": "x=y", "C": ""}}),
        ("--word a --word=-b", {"words": ["a", "-b"]}),
        ("--slow", {"mode": "slow"}),
    ],
)
def test_a_flag_is_read_as_the_type_of_its_field(line, given):
    assert read(line) == given


@pytest.mark.parametrize(
    "line", ["--fast --slow", "--wait soon", "--wait 0", "--env A", "--inner 1"]
)
def test_what_no_field_takes_is_refused(line):
    with pytest.raises(UsageError):
        read(line)


def test_fields_are_listed_with_their_types():
    found = {name: (kind, len(options)) for name, kind, options in options_of(Fields)}
    assert found["wait_s"] == (float | None, 1)
    assert found["mode"] == (str | None, 2)
    assert found["inner"] == (int | None, 0)
