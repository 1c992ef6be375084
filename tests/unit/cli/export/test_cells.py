import json

import pytest

from jupyter_dist.cli.export.cells import read_cells
from jupyter_dist.errors import UsageError


def write(path, *cells):
    path.write_text(json.dumps({"nbformat": 4, "cells": cells}))
    return path


def code(source, prompt=None):
    return {"cell_type": "code", "source": source, "execution_count": prompt}


def test_cells_are_named_as_people_find_them(tmp_path):
    file = write(
        tmp_path / "a.ipynb",
        {"cell_type": "markdown", "source": "# Title"},
        code("%load_ext jupyter_dist", 3),
        code(["%%spmd --check\n", "x = 1\n", "y = 2"]),
    )
    first, second = read_cells(file)
    assert (first.name, first.where, first.is_empty) == ("cell 1 (In[3])", "notebook", True)
    assert (second.name, second.where, second.source) == ("cell 2", "ranks", "\nx = 1\ny = 2")
    assert second.options == ("--check",)


@pytest.mark.parametrize("text", ["no JSON", "[]", "{}", '{"cells": [{}]}', "\ud800"])
def test_a_file_that_is_no_notebook_is_refused(tmp_path, text):
    file = tmp_path / "a.ipynb"
    file.write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(UsageError, match=r"a\.ipynb is no notebook"):
        read_cells(file)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"b\.ipynb cannot be read: No such file"):
        read_cells(tmp_path / "b.ipynb")
