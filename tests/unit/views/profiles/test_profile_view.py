import re

import pytest
from fakes.profiled import every, line, sampled
from fakes.recorded import call, host, rank

from jupyter_dist.cluster.collectives.recorded_calls import CollectiveLog
from jupyter_dist.cluster.profiling.profile import Gathered, Profile
from jupyter_dist.model.ranks.profiles import Allocation, RankProfile
from jupyter_dist.views.profiles import flame_graph
from jupyter_dist.views.profiles.profile_view import profile_html, profile_text

EVIL = line(3, "<script>alert(1)</script>", code="x < y & z")
CALLS = (rank(0, call("barrier", 1, 20, 91)), rank(1, call("barrier", 1, 90, 91)))


def profile_of(ranks, kind="sampling", **more):
    log = CollectiveLog((host("a", *CALLS),), {}, 2)
    return Profile("demo", Gathered(kind, ranks, {}, **more), log)


@pytest.fixture
def profile():
    return profile_of(
        {
            0: sampled(*every(10, line(2))),
            1: sampled(*every(10, EVIL)),
        }
    )


def test_it_says_who_is_slow_and_colours_what_differs_with_words_beside(profile):
    markup = profile_html(profile)
    assert "▶ 1" in markup
    assert f"rgba({flame_graph._MORE}," in markup
    assert re.search(r"rank 1 \+\d+%", markup)
    assert 'role="img"' in markup


def test_nothing_of_a_name_is_markup_and_nothing_needs_a_script(profile):
    markup = profile_html(profile)
    for forbidden in ("<script", "<style", "<svg", "class=", "onclick"):
        assert forbidden not in markup
    assert "&lt;script&gt;" in markup
    assert markup.count("<div") == markup.count("</div>")


def test_the_text_has_the_same(profile):
    text = profile_text(profile)
    assert re.search(r"^▶ 1 ", text, re.MULTILINE)
    assert re.search(r"rank 1 [+-]\d+%", text)


def test_the_graph_is_bounded():
    many = [(ms, *(line(ms * 50 + deep) for deep in range(60))) for ms in range(1, 101)]
    markup = profile_html(profile_of({0: sampled(*many), 1: sampled(*many)}))
    assert len(markup) < 400_000


def test_memory_is_a_table_of_lines():
    own = RankProfile(
        "memory", 0, 10**8, allocations=(Allocation("In[1]:2", "x = a < b", 1 << 20, 3),)
    )
    found = profile_of({0: own, 1: own}, kind="memory", gpu_bytes={0: 1 << 30})
    for told in (profile_text(found), profile_html(found)):
        assert "In[1]:2" in told
        assert "1 MiB" in told
        assert "1 GiB" in told


def test_no_rank_at_all_is_no_error():
    for kind in ("sampling", "memory", "torch"):
        assert profile_text(profile_of({}, kind=kind))
        assert profile_html(profile_of({}, kind=kind))


def test_hosts_are_named_where_there_are_several():
    ranks = {0: sampled(*every(10, line(2))), 1: sampled(*every(10, line(2)))}
    hosts = (host("nodeA", CALLS[0]), host("nodeB", CALLS[1]))
    found = Profile("demo", Gathered("sampling", ranks, {}), CollectiveLog(hosts, {}, 2))
    for told in (profile_text(found), profile_html(found)):
        assert "nodeB" in told
    assert "host" not in profile_text(profile_of(ranks))
