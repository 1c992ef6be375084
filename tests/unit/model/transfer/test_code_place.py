from jupyter_dist.model.transfer.code_place import Imported, read_imports, write_import


def test_the_last_line_about_a_module_counts():
    lines = [
        Imported("a", "/code/a.py", 1.0),
        Imported("b", "/code/b.py", 1.0),
        Imported("c", "/code/c.py", 1.0),
        Imported("a", "/code/a.py", 2.0),
        Imported("c"),
    ]
    read = read_imports(b"".join(map(write_import, lines)))
    assert read == {"b": lines[1], "a": lines[3]}


def test_a_line_that_is_half_written_is_left_for_later():
    whole = write_import(Imported("a", "/code/a.py", 1.0))
    assert list(read_imports(whole + whole[:9])) == ["a"]
