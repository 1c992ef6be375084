"""Pages of a real Jupyter Server see clusters and what cells say, beside any notebook."""

from .cells import label_is


def test_clusters_are_listed_and_a_page_is_told_of_the_one_that_it_follows(start, browser, feed):
    assert browser.clusters() == {}
    start("localhost:2", name="first")
    row = browser.row("first")
    assert (row["state"], row["world_size"], row["busy"], row["lost"]) == ("ready", 2, 0, 0)
    assert row["hosts"] == ["localhost"]
    assert row["owner"].startswith("program ")
    page = feed()
    assert [row["name"] for row in page.wait_for("clusters")["clusters"]] == ["first"]
    page.follow("first", 1)
    seen = page.wait_for("topology")["topology"]
    assert [host["name"] for host in seen["hosts"]] == ["localhost"]


# --- what cells say ---


def test_a_page_sees_a_running_cell_of_another_process_and_its_end(elsewhere, driver, hold, feed):
    name = elsewhere()
    driver.begin(hold("print('rank', rank, 'here')", "rank * 10"), label=7)
    page = feed(name, rank=1)
    seen = page.wait_for("cell", lambda m: "rank 1 here" in m["html"])
    assert (seen["cluster"], seen["label"], seen["is_running"]) == (name, "In[7]", True)
    assert "2 running" in seen["text"]
    tail = page.wait_for("tail", lambda m: "here" in m["text"])
    assert (tail["cluster"], tail["rank"], tail["text"]) == (name, 1, "rank 1 here")
    busy = page.wait_for("clusters", lambda m: m["clusters"][0]["busy"] == 2)
    assert busy["clusters"][0]["cell"] == "In[7]"
    hold.release()
    ended = page.wait_for("cell", label_is("In[7]", is_running=False))
    assert "Out[0-1]: [0] 0  [1] 10" in ended["text"]
    assert driver.hear() == "ok"


def test_a_page_that_comes_in_the_middle_of_a_cell_gets_all_that_is_kept(
    elsewhere, driver, hold, feed
):
    name = elsewhere()
    driver.begin(hold("for k in range(30): print('line', k)"), label=1)
    first = feed(name)
    first.wait_for("cell", lambda m: "line 29" in m["html"])
    first.close()
    second = feed(name)
    seen = second.wait_for("cell", lambda m: "line 29" in m["html"])
    assert "line 0" in seen["html"]
    third = feed(name, rank=0)
    assert "line 0" in third.wait_for("cell")["html"], "the first picture is whole"
    assert third.wait_for("tail")["text"].splitlines() == [f"line {k}" for k in range(30)]
    hold.release()
    assert driver.hear() == "ok"


def test_a_cell_that_nobody_saw_is_shown_as_the_last_one(start, feed):
    cluster = start("localhost:2", name="quick")
    cluster.run("print('said before')", label=1)
    page = feed("quick", rank=0)
    assert "said before" in page.wait_for("cell", label_is("In[1]", is_running=False))["html"]
    cluster.run("print('said later')", label=2)
    assert "said later" in page.wait_for("cell", label_is("In[2]", is_running=False))["html"]
    page.wait_for("tail", lambda m: m["text"] == "said later")


def test_the_tail_of_a_rank_that_raised_ends_with_its_traceback(start, feed):
    cluster = start("localhost:2", name="raising")
    cluster.run("print('before')\nif rank == 1: 1 / 0", label=1)
    page = feed("raising", rank=1)
    lines = page.wait_for("tail", lambda m: "before" in m["text"])["text"].splitlines()
    assert lines[0] == "before"
    assert lines[-1].startswith("ZeroDivisionError: ")
    page.follow("raising", 0)
    assert page.wait_for("tail", lambda m: m["rank"] == 0)["text"] == "before"
