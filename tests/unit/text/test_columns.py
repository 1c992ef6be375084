from jupyter_dist.text.columns import align, without_empty


def test_columns_are_as_wide_as_their_widest_cell():
    rows = [("a", "1", "x"), ("bbb", "22", "")]
    assert align(rows) == ["a    1   x", "bbb  22"]
    assert align(rows, right=(1,)) == ["a     1  x", "bbb  22"]


def test_columns_in_which_nothing_stands_are_left_out():
    assert without_empty([("a", "b", "c"), ("", "", "1"), ("2", "", "")]) == [
        ["a", "c"],
        ["", "1"],
        ["2", ""],
    ]
