from jupyter_dist.text.said_lines import last_lines


def test_last_lines_leave_out_empty_ones_and_the_ends_that_terminals_want():
    assert last_lines("a\r\n\n \nb \r\nc\n", 2) == "b\nc"
    assert last_lines("") == ""
    assert last_lines("\n".join(map(str, range(50)))).splitlines() == [
        str(n) for n in range(38, 50)
    ]
