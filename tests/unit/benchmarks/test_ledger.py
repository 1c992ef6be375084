import pytest

MACHINE = {"cpu": "X", "cores": 2, "memory": "24 GiB", "load before": 0.25, "python": "3.11.7"}
PAGE = "Before.\n<!-- figures: costs -->\nold\n<!-- /figures -->\nAfter.\n"
SAMPLES = {
    ("ours", "cluster.run"): [4.0, 2.0, 3.0],
    ("ours@bbb", "cluster.run"): [2.0],
    ("ours@aaa", "cluster.run"): [1.0, 3.0],
    ("ours-magic", "%%spmd"): [5.0],
    ("ours-magic@bbb", "%%spmd"): [4.0],
    ("ipyparallel", "DirectView"): [12.0],
    ("ipyparallel", "%%px"): [20.0],
    ("bare-zeromq", "ping"): [0.5],
    ("bare-zeromq", "run_cell"): [1.5],
}


@pytest.fixture
def ledger(benchmark_module):
    return benchmark_module("ledger")


@pytest.fixture
def lines(ledger):
    """Return the lines of a run with these samples of the empty cell."""

    def make(samples=SAMPLES, commits=("aaa", "bbb", "ccc")):
        record = ledger.Record()
        for (contender, way), values in samples.items():
            for value in values:
                record.add(ledger.Entry("empty cell", 2, contender, way), value)
        versions = {contender: {"pyzmq": "27"} for contender, _ in samples}
        return list(ledger.lines_of(record, MACHINE, versions, commits))

    return make


def test_a_line_has_the_median_and_its_ratios_in_the_same_run(ledger, lines):
    found = {(line["commit"], line["way"]): line for line in lines()}
    today = found["ccc", "cluster.run"]
    assert set(today) == set(ledger.COLUMNS)
    assert (today["value"], today["unit"], today["samples"]) == ("3", "ms", "3")
    assert (today["machine"], today["load"]) == ("X, 2 cores, 24 GiB", "0.2")
    assert today["over ipyparallel"] == "0.250", "its best way"
    assert today["over bare-zeromq"] == "2.000", "that which runs the cell as IPython does"
    assert today["over jupyter-distributed"] == "", "it did not take part"
    assert found["bbb", "cluster.run"]["over ipyparallel"] == "0.167"


def test_every_release_is_set_against_the_one_before_it_in_the_same_way(ledger, lines):
    over = {(line["commit"], line["way"]): line[ledger.BEFORE] for line in lines()}
    assert over == {
        ("aaa", "cluster.run"): "",
        ("bbb", "cluster.run"): "1.000",
        ("bbb", "%%spmd"): "",  # aaa's is missing
        ("ccc", "cluster.run"): "1.500",
        ("ccc", "%%spmd"): "1.250",
    }
    assert [line["commit"] for line in lines()][-1] == "ccc", "the next run begins from it"


def test_a_run_without_earlier_releases_has_todays_lines(ledger, lines):
    (line,) = lines({("ours", "cluster.run"): [1.0]}, ("ccc",))
    assert (line["commit"], line[ledger.BEFORE]) == ("ccc", "")


def test_lines_are_added_behind_those_that_are_there(ledger, lines, tmp_path):
    path = tmp_path / "history.csv"
    assert ledger.read_ledger(path) == []
    run = lines()
    ledger.append(run, path)
    ledger.append(run, path)
    found = ledger.read_ledger(path)
    assert len(found) == 2 * len(run)
    assert found[: len(found) // 2] == found[len(found) // 2 :]


def test_pages_get_the_figures_of_the_last_run_with_ipyparallel(ledger, lines):
    def run(date, **cells):
        return [{**line, **cells, "date": date} for line in lines()]

    history = [
        *run("2026-11-21T10:00:00Z", value="9"),
        *run("2026-11-22T10:00:00Z"),
        *run("2026-11-23T10:00:00Z", **{"over ipyparallel": ""}),
    ]
    text = ledger.renewed(PAGE, history)
    assert text.startswith("Before.\n<!-- figures: costs -->\nMedians of 2026-11-22, commit ccc")
    assert text.endswith("<!-- /figures -->\nAfter.\n")
    assert "| empty cell (`%%spmd`) | 5.00 ms (0.42) |" in text
    assert ledger.renewed(text, history) == text
    assert ledger.renewed(text, run("2026-11-24T10:00:00Z")) != text


def test_the_table_of_drift_has_a_column_for_each_release(ledger, lines):
    text = ledger.renewed(PAGE.replace("costs", "drift"), lines())
    assert "| figure | way | ranks | unit | aaa | bbb | ccc | over release before |" in text
    assert "| empty cell | cluster.run | 2 | ms | 2.00 | 2.00 | 3.00 | 1.500 |" in text
    assert "| empty cell | %%spmd | 2 | ms |  | 4.00 | 5.00 | 1.250 |" in text


def test_the_table_of_rivals_says_how_many_times_as_much_they_take(ledger, lines):
    run = [{**line, "ranks": "8"} for line in lines()]
    text = ledger.renewed(PAGE.replace("costs", "rivals"), run)
    assert "| empty cell (`%%spmd`) | 5.00 ms | 2.4 times |  |" in text


def test_without_a_run_nothing_is_claimed(ledger, lines):
    alone = lines({("ours", "cluster.run"): [1.0]}, ("ccc",))
    for history in ([], alone):
        assert ledger.renewed(PAGE, history) == PAGE.replace("old", "Not measured yet.")


def test_what_pages_quote_is_what_the_ledger_has(ledger):
    pages = ledger.find_pages()
    assert ledger.ROOT / "README.md" in pages
    for page in pages:
        text = page.read_text()
        assert text.count("<!-- figures") == len(ledger.BLOCK.findall(text)), page
        assert text == ledger.renewed(text, ledger.read_ledger()), "run benchmarks/ledger.py"


def test_releases_run_where_ours_runs(benchmark_module):
    against_peers = benchmark_module("against_peers")
    plan = against_peers.replace(against_peers.QUICK, releases=("aaa", "bbb"))
    starters = plan.who(against_peers.STARTERS, 2)
    assert [name for name in starters if "@" in name] == ["ours@aaa", "ours@bbb"]
    runners = plan.who(against_peers.RUNNERS, 32)
    assert {"ours-magic@aaa", "ours-magic@bbb"} < set(runners)
    assert plan.who(("ipyparallel",), 2) == ["ipyparallel"]
