from fakes.notebook import Page

from jupyter_dist.model.ranks.stacks import Frame, RankStacks, ThreadStack
from jupyter_dist.views.tables.stacks_table import (
    MOST_FRAMES,
    stacks_html,
    stacks_text,
)

CALL = Frame("<module>", "In[5]:3", "batch = load(k)")
LOAD = Frame("load", "In[2]:9", "return [f(x) for x in rows]")
WAIT = Frame("<module>", "In[5]:7", "comm.all_reduce(x)")


def stacks(*frames, threads=(), **more):
    main = ThreadStack("MainThread", is_main=True, frames=frames)
    return RankStacks(threads=(main, *threads), **more)


def hang():
    feed = ThreadStack("feed", is_main=False, frames=(Frame("pump", "feed.py:12"),))
    return {
        0: stacks(WAIT, threads=(feed,)),
        1: stacks(WAIT),
        2: stacks(CALL, LOAD, source="faulthandler", process_state="D"),
        3: RankStacks("none", note="it is lost"),
    }


def test_ranks_with_the_same_stack_are_told_once_the_odd_ones_first():
    assert stacks_text(hang()).splitlines() == [
        "rank 2 (waits for a disk; seen by faulthandler)",
        "  In[5]:3: batch = load(k)",
        "▶ In[2]:9 in load: return [f(x) for x in rows]",
        "rank 3 (it is lost)",
        "ranks 0-1",
        "▶ In[5]:7: comm.all_reduce(x)",
        "  thread feed of rank 0",
        "  ▶ feed.py:12 in pump",
    ]


def test_a_thread_that_all_of_a_group_have_names_nobody():
    feed = ThreadStack("feed", is_main=False, frames=(LOAD,))
    text = stacks_text({0: stacks(WAIT, threads=(feed,)), 1: stacks(WAIT, threads=(feed,))})
    assert "  thread feed\n" in text


def test_of_a_deep_stack_the_outer_calls_are_counted():
    deep = [Frame("f", f"In[5]:{line}") for line in range(MOST_FRAMES + 70)]
    lines = stacks_text({0: stacks(*deep)}).splitlines()
    assert lines[1] == "  … 70 outer calls"
    assert lines[-1] == f"▶ In[5]:{MOST_FRAMES + 69} in f"
    assert len(lines) == MOST_FRAMES + 2


def test_html_says_the_same_as_the_text():
    text = "".join(Page(stacks_html(hang())).text)
    for line in stacks_text(hang()).splitlines():
        words = line.strip().replace("(", "").replace(")", "")
        assert all(word in text.replace("(", "").replace(")", "") for word in words.split())
    assert "other threads: feed" in text


def test_no_ranks_are_told_as_such():
    (said,) = stacks_text({}).splitlines()
    assert Page(stacks_html({})).text == [said]
