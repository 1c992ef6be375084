import pytest

from jupyter_dist.model.transfer.code_manifest import (
    CodeFile,
    CodeSource,
    Manifest,
    Piece,
    find_escape,
    is_left_out,
    pack_pieces,
    parents_of,
    share_contents,
)


def file(path, digest=b"d"):
    return CodeFile(path, 1, 0o644, digest)


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x", "a/../../x", "a//b", ".", "./a", "a/", "", "a\0b"]
)
def test_a_path_out_of_the_code_directory_is_found(path):
    assert find_escape(Manifest((), (file("a/b.py"), file(path)))) == path
    assert find_escape(Manifest((), (), (path,))) == path
    assert find_escape(Manifest((CodeSource("/x", (path,)),), ())) == path


@pytest.mark.parametrize("path", ["a.py", "a/b.py", "a/..b", "a/b..", "...", "ü/ö.py", "a b"])
def test_unusual_names_are_no_escapes(path):
    assert find_escape(Manifest((), (file(path),), (path,))) is None


LEFT_OUT = ["__pycache__", ".git", "a.pyc", ".venv", "node_modules", ".ipynb_checkpoints"]


def test_what_nobody_wants_on_the_hosts_is_left_out():
    assert list(filter(is_left_out, [*LEFT_OUT, "a.py", ".gitignore", "pyc", "venv"])) == LEFT_OUT


def test_parents_are_all_folders_above():
    assert parents_of(["a/b/c.py", "a/d.py", "e.py"]) == {"a", "a/b"}


def test_contents_that_several_hosts_lack_are_sent_once_and_only_to_them():
    files = [file("a", b"1"), file("b", b"2"), file("c", b"1"), file("d", b"3")]
    shared = share_contents(files, {"x": [0, 1, 2], "y": [2, 3], "z": []})
    assert shared == [(("x",), 1), (("x", "y"), 0), (("y",), 3)]


def test_pieces_for_the_same_hosts_travel_together_up_to_a_size():
    pieces = [
        (("x",), Piece(0, b"a" * 10)),
        (("x",), Piece(1, b"b" * 10)),
        (("x",), Piece(2, b"c" * 90)),
        (("x", "y"), Piece(3, b"")),
    ]
    chunks = [
        (hosts, [piece.index for piece in chunk]) for hosts, chunk in pack_pieces(pieces, 100)
    ]
    assert chunks == [(("x",), [0, 1]), (("x",), [2]), (("x", "y"), [3])]
    assert list(pack_pieces([])) == []
