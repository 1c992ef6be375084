import re

import pytest

from jupyter_dist.cluster.code.sync import SyncResult, _read_paths
from jupyter_dist.cluster.result import SpmdResult
from jupyter_dist.errors import UsageError

FACTS = {
    "paths": ("mypkg",),
    "hosts": ("a", "b", "c"),
    "file_count": 12,
    "size_bytes": 34_123,
    "changed_count": 2,
    "removed_count": 0,
    "duration_s": 0.41,
}


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({}, "copied mypkg (12 files, 33.3 KiB) to 3 hosts in 0.4 s (2 files changed)"),
        (
            {"changed_count": 0, "hosts": ("a",), "file_count": 1, "size_bytes": 12},
            "copied mypkg (1 file, 12 B) to 1 host in 0.4 s (nothing had changed)",
        ),
        (
            {"changed_count": 1, "removed_count": 3, "size_bytes": 3_456_789},
            "copied mypkg (12 files, 3.3 MiB) to 3 hosts in 0.4 s (1 file changed, 3 removed)",
        ),
        (
            {"paths": ("a.py", "src/"), "changed_count": 0, "removed_count": 1, "size_bytes": 45e6},
            "copied a.py, src/ (12 files, 42.9 MiB) to 3 hosts in 0.4 s (1 removed)",
        ),
    ],
)
def test_the_result_is_one_line(facts, text):
    assert str(SyncResult(**FACTS | facts)) == text


def test_modules_that_ranks_have_as_they_were_are_named_with_what_to_do():
    one = SyncResult(**FACTS, stale={"mypkg.model": ("a", "b", "c")})
    assert re.fullmatch("mypkg.model .* 3 hosts .*: %dist_sync mypkg --reload", one.hint())
    stale = {"mypkg.b": ("a",), "mypkg.a": ("a", "c")}
    two = SyncResult(**FACTS | {"paths": ("my pkg",)}, stale=stale).hint("sync")
    assert re.fullmatch("mypkg.a, mypkg.b .* 2 hosts .*: sync 'my pkg' --reload", two)


def test_without_such_modules_or_after_loading_them_there_is_no_hint():
    assert SyncResult(**FACTS).hint() == ""
    assert SyncResult(**FACTS, stale={"a": ("h",)}, reload=SpmdResult([])).hint() == ""


def test_one_path_or_several_may_be_given(tmp_path):
    assert _read_paths("mypkg") == ("mypkg",)
    assert _read_paths(tmp_path) == (str(tmp_path),)
    assert _read_paths(["a", tmp_path]) == ("a", str(tmp_path))


@pytest.mark.parametrize("paths", [[], "", ["a", ""], [b"a"]])
def test_no_path_is_a_mistake(paths):
    with pytest.raises(UsageError, match=re.escape(f"paths {paths!r}")):
        _read_paths(paths)
