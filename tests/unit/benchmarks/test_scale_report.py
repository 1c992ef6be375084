import json

import pytest

HERE = {"cpu": "X", "cores": 2, "memory": "24 GiB", "python": "3.11.7"}
PAGE = "Before.\n<!-- scale: cells -->\nold\n<!-- /scale -->\nAfter.\n"


def row(ranks, hosts=1, **figures):
    taken = {"date": "2026-11-26T08:00Z", "commit": "abc", "load": 1.0, "versions": {"pyzmq": "27"}}
    return {"ranks": ranks, "hosts": hosts, **taken, **figures}


@pytest.fixture
def report(benchmark_module, tmp_path, monkeypatch):
    module = benchmark_module("scale_report")
    monkeypatch.setattr(module, "RESULTS", tmp_path / "scale.json")
    monkeypatch.setattr(module, "TABLES", tmp_path / "scale.md")
    monkeypatch.setattr(module, "PAGE", tmp_path / "page.md")
    return module


def test_a_slope_is_that_of_the_sizes_that_count_and_were_measured(report):
    rows = [row(64, cell_ms=4.0), row(1024, cell_ms=64.0), row(8, cell_ms=50.0), row(4096)]
    rows.append(row(16384, cell_ms=50.0))
    assert report.slope(rows, "cell_ms") == pytest.approx(1.0)
    assert report.slope(rows[:1], "cell_ms") is None
    assert report.slope(rows, "idle_percent") is None


def test_a_size_is_kept_in_the_place_of_what_it_was_before(report):
    report.keep([("simulated", row(64, 8, cell_ms=1.0)), ("real", row(64, cell_ms=2.0))], HERE)
    report.keep([("simulated", row(64, 8, cell_ms=3.0))], HERE)
    kept = json.loads(report.RESULTS.read_text())
    assert kept["simulated"]["8x8"]["cell_ms"] == 3.0
    assert kept["simulated"]["8x8"]["machine"] == "X, 2, 24 GiB, 3.11.7"
    assert kept["real"]["1x64"]["cell_ms"] == 2.0


def test_pages_get_the_tables_that_they_name_and_the_results_all_of_them(report):
    report.PAGE.write_text(PAGE)
    report.keep([("simulated", row(1024, 128, cell_ms=70.0, problem="it ended"))], HERE)
    report.write_pages()
    page = report.PAGE.read_text()
    assert page.startswith("Before.\n<!-- scale: cells -->\n| ranks | hosts |")
    assert page.endswith("<!-- /scale -->\nAfter.\n")
    assert "1024 ranks: it ended" in page
    assert report.renewed(page, report.read_kept()) == page
    assert "| 1024 | 128 | 2026-11-26T08:00Z | abc | 1.0 |" in report.TABLES.read_text()


@pytest.mark.parametrize(
    ("figures", "verdict"),
    [({"cell_ms": 40.0}, "met"), ({"cell_ms": 41.0}, "missed"), ({}, "not measured")],
)
def test_goals_are_met_missed_or_not_measured(report, figures, verdict):
    kept = {"simulated": {"128x8": row(1024, 128, **figures)}}
    lines = report.draw("goals", kept).splitlines()
    (line,) = (each for each in lines if "1024 simulated ranks: empty cell" in each)
    assert verdict in line


def test_what_a_rank_costs_is_that_of_the_largest_size_of_which_all_is_known(report):
    figures = {"cell_main_cpu_ms": 4.0, "start_cpu_s": 1.0, "idle_percent": 1.0}
    kept = {
        "simulated": {
            "a": row(8, 1, rss_mib=10.0, cell_cpu_ms=1.0, **figures),
            "b": row(1032, 129, rss_mib=11.0, cell_cpu_ms=10.32, **figures),
            "c": row(4096, 512, cell_cpu_ms=1.0),
        }
    }
    text = report.draw("capacity", kept)
    assert "| at 1032 ranks on 129 hosts | for a rank |" in text
    assert "| CPU for an empty cell | 10 µs |" in text
    assert "above the smallest size | 1 KiB |" in text
    assert "| 1 | 25000 | 10320 |" in text
    assert "| 4 | 64500 | 41280 |" in text, "the main thread has one core, whatever there is"
    assert report.draw("capacity", {}) == "Not measured yet.\n"


def test_a_row_is_described_with_what_went_wrong(report):
    assert list(report.describe(row(8, start_s=1.0, problem="it ended"))) == [
        "start, s: 1.00",
        "it ended",
    ]


def test_the_page_quotes_what_was_measured_last(benchmark_module):
    report = benchmark_module("scale_report")
    page = report.PAGE.read_text()
    assert page.count("<!-- scale:") == len(report.BLOCK.findall(page)) > 0
    assert page == report.renewed(page, report.read_kept()), "run benchmarks/scale.py --report"
    assert report.TABLES.read_text() == f"# Scale\n\n{report.draw('all', report.read_kept())}"


def test_sizes_and_faults_are_read_or_refused(benchmark_module):
    scale = benchmark_module("scale")
    assert scale.sizes("8,128") == [8, 128]
    assert scale.faults("drop,delay") == ["delay", "drop"], "what drops a host comes last"
    assert scale.faults("none") == []
    for read, text in ((scale.sizes, "0"), (scale.sizes, "a"), (scale.faults, "flood")):
        with pytest.raises(ValueError, match=r".*"):
            read(text)


def test_goals_of_real_ranks_are_shares_too_of_what_an_earlier_commit_took_beside(report):
    before = {"commit": report.BEFORE_COMMIT, "cell_ms": 282.0}
    beside = row(256, cell_ms=170.0, start_s=3.0, rounds=3, before=before)
    kept = {"real": {"1x256": beside, "1x8": row(8, cell_ms=1.0, rounds=3, before=before)}}
    (line,) = (each for each in report.draw("goals", kept).splitlines() if " over commit " in each)
    assert "256 real ranks: empty cell over commit" in line
    assert line.endswith("| missed |"), "170 of 282 is more than 80 of 141"
    beside["cell_ms"] = 150.0
    (line,) = (each for each in report.draw("goals", kept).splitlines() if " over commit " in each)
    assert line.endswith("| met |")
    before["commit"] = "another"
    assert " over commit " not in report.draw("goals", kept), "goals were not set by that one"
