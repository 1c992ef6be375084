from jupyter_dist.engine.channel import channel
from jupyter_dist.engine.profiling.samples import MOST_CALLS, SeenStacks
from jupyter_dist.model.ranks.stack_reading import Call

CELL = "/cells/In_3_0a1b2c3d.py"


def read(*innermost_first):
    seen = SeenStacks(
        [tuple(innermost_first)],
        lambda file: "In[3]" if file == CELL else "",
        lambda: "first\n  second line  ",
    )
    (stack,) = seen.stacks
    return [seen.frames[number] for number in stack]


def test_a_stack_begins_with_the_cell_and_has_its_text():
    (frame,) = read(Call(CELL, 2, "<module>"), Call("/usr/lib/python3/runpy.py", 5, "<module>"))
    assert (frame.site, frame.code) == ("In[3]:2", "second line")


def test_it_ends_where_user_code_calls_this_package():
    frames = read(
        Call(channel.__file__, 9, "take"),
        Call("/srv/model.py", 7, "step"),
        Call(CELL, 1, "<module>"),
    )
    assert [frame.site for frame in frames] == ["In[3]:1", "/srv/model.py:7"]
    assert frames[1].function == "step"


def test_between_cells_there_is_nothing_to_see():
    assert (
        read(Call(channel.__file__, 9, "take"), Call("/usr/lib/python3/x.py", 5, "<module>")) == []
    )


def test_a_deep_stack_keeps_its_outer_calls():
    deep = [Call("/srv/deep.py", number, "inner") for number in range(1000, 0, -1)]
    frames = read(*deep, Call(CELL, 1, "<module>"))
    assert len(frames) == MOST_CALLS
    assert [frame.site for frame in frames[:2]] == ["In[3]:1", "/srv/deep.py:1"]


def test_half_characters_in_names_of_files_can_be_sent():
    (frame,) = read(Call("/srv/\udcff.py", 1, "<module>"))
    frame.site.encode()


def test_a_call_of_c_has_no_line():
    frames = read(Call("/lib/libblas.so.3", 0, "dgemm"), Call(CELL, 1, "<module>"))
    assert (frames[1].site, frames[1].function) == ("/lib/libblas.so.3", "dgemm")
    assert (frames[0].is_in_library, frames[1].is_in_library) == (False, True)
