from html.parser import HTMLParser

from jupyter_dist.model.stacks import Frame, RankStacks, ThreadStack
from jupyter_dist.views.stacks_table import MOST_FRAMES, stacks_bundle, stacks_html, stacks_text

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


class Page(HTMLParser):
    """Checks that tags are closed as they were opened; gathers all text."""

    def __init__(self, markup):
        super().__init__()
        self.open, self.text = [], ""
        self.feed(markup)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


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
    text = Page(stacks_html(hang())).text
    for line in stacks_text(hang()).splitlines():
        words = line.strip().replace("(", "").replace(")", "")
        assert all(word in text.replace("(", "").replace(")", "") for word in words.split())
    assert "other threads: feed" in text


def test_html_has_no_style_but_its_own():
    markup = stacks_html(hang())
    assert "class=" not in markup
    assert "<style" not in markup


def test_what_users_have_written_is_escaped_and_moves_no_cursor():
    evil = Frame("<lambda>", "<b>.py:3", "print('<script>\x1b[2J')")
    thread = ThreadStack("<i>", is_main=False, frames=(evil,))
    found = {
        0: stacks(evil, threads=(thread,), note="<u>"),
        1: RankStacks("none", note="<p>\x1b[2J"),
    }
    markup = stacks_html(found)
    for tag in ("<script", "<lambda", "<i>", "<u>", "<p>", "<b>."):
        assert tag not in markup
    assert "\x1b" not in markup + stacks_text(found)
    Page(markup)


def test_a_notebook_gets_html_and_plain_text():
    assert stacks_bundle(hang()) == {
        "text/html": stacks_html(hang()),
        "text/plain": stacks_text(hang()),
    }


def test_no_ranks_are_told_as_such():
    assert stacks_text({}) == "No rank has been looked at.\n"
    assert "No rank has been looked at." in stacks_html({})
