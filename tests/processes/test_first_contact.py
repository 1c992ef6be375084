"""The programs of benchmarks/gpu: what they start, how long they let it run, and what they keep."""

import json
import subprocess
import sys
import zipfile

import pytest

from tests.patience import wait_until, within

SOME_TESTS = """
import pytest, time
def test_good(record_property):
    record_property("abort_s after a kill", "0.31")
def test_bad():
    assert 1 == 2, "a | b <c>"
@pytest.mark.skip(reason="no GPU here")
def test_left_out(): pass
@pytest.fixture
def broken():
    yield
    raise RuntimeError("not cleaned up")
def test_leaves_something(broken): pass
def test_last(): {last}
"""


@pytest.fixture
def pytest_run(first_contact, monkeypatch, tmp_path):
    """Run pytest on some tests as a run of the plan; gives what was found."""

    def run(last, reached=None):
        running = first_contact("running")
        (tmp_path / "test_some.py").write_text(SOME_TESTS.format(last=last))
        wanted = running.Run(
            "some",
            (
                *("-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml={folder}/some.xml"),
                *(f"--rootdir={tmp_path}", f"--confcutdir={tmp_path}"),
                str(tmp_path / "test_some.py"),
            ),
            60.0,
        )
        if reached is not None:
            await_end = running._await_end

            def await_end_from_there(process, limit_s):
                wait_until(reached.exists, limit_s, "the last test begins")
                return await_end(process, 0.01)

            monkeypatch.setattr(running, "_await_end", await_end_from_there)
        env = running.environment(wanted, tmp_path, tmp_path / "no cache")
        return running.perform(wanted, tmp_path, wanted.limit_s, env)

    return run


def outcomes(found):
    return {test["name"].partition("::")[2]: test["outcome"] for test in found["tests"]}


def test_what_pytest_writes_is_read(pytest_run):
    found = pytest_run("pass")
    assert outcomes(found) == {
        "test_good": "passed",
        "test_bad": "failed",
        "test_left_out": "skipped",
        "test_leaves_something": "error",
        "test_last": "passed",
    }
    by_name = {test["name"]: test for test in found["tests"]}
    assert by_name["test_some::test_good"]["figures"] == {"abort_s after a kill": "0.31"}
    assert "a | b" in by_name["test_some::test_bad"]["reason"]
    assert by_name["test_some::test_left_out"]["reason"] == "no GPU here"
    assert (found["ended"], found["code"]) == ("", 1)
    assert "test_bad" in found["tail"]


def test_a_run_that_takes_too_long_keeps_what_its_tests_have_found(pytest_run, tmp_path):
    reached = tmp_path / "reached"
    found = pytest_run(f"open({str(reached)!r}, 'w').close(); time.sleep(60)", reached)
    assert found["ended"].startswith("stopped after")
    assert found["wall_s"] < 30
    assert outcomes(found)["test_good"] == "passed"
    assert "test_last" not in outcomes(found)


def program_of(code):
    return ("-c", code)


@pytest.fixture
def contact(first_contact, monkeypatch, tmp_path):
    """`make gpu` with steps of a test, and a page of its own."""
    module = first_contact("contact")
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- make gpu: begin -->\n<!-- make gpu: end -->\nafter\n")
    monkeypatch.setattr(module, "install_kit", lambda _kit: None)
    monkeypatch.setattr(module, "SHORTEST_S", 0.5)

    def run(steps, *options, gpus=1, minutes=1.0):
        monkeypatch.setattr(module, "count_gpus", lambda: gpus)
        monkeypatch.setattr(module, "make_steps", lambda _count: steps)
        folder = str(tmp_path / "found")
        module.main(["--folder", folder, "--page", str(page), "--minutes", str(minutes), *options])
        return page.read_text()

    run.page = page
    run.results = tmp_path / "found" / "results.json"
    return run


@pytest.fixture
def plan(first_contact):
    return first_contact("plan")


def test_a_run_that_fails_costs_none_of_the_others(contact, plan):
    write = "import json, sys; json.dump({'gpu': 'H200', 'gpus': 1}, open(sys.argv[1], 'w'))"
    steps = {
        1: plan.Step("one", [plan.Run("broken", program_of("raise SystemExit('no | way')"), 20)]),
        2: plan.Step("two", [plan.Run("facts", (*program_of(write), "{folder}/facts.json"), 20)]),
    }
    text = contact(steps)
    assert text.startswith("before\n<!-- make gpu: begin -->\n")
    assert text.endswith("<!-- make gpu: end -->\nafter\n")
    assert r"ended with 1: no \| way" in text
    assert "on 1 H200" in text


def test_what_calls_find_one_after_the_other_is_put_together(contact, plan):
    def steps(word):
        runs = [plan.Run(name, program_of(f"print({word!r})"), 20) for name in ("a", "b")]
        return {number: plan.Step("", [run]) for number, run in enumerate(runs, 1)}

    contact(steps("first"), "--steps", "1")
    contact(steps("second"), "--steps", "2")
    found = json.loads(contact.results.read_text())
    assert {name: run["tail"].strip() for name, run in found.items()} == {
        "a": "first",
        "b": "second",
    }
    contact.page.write_text("x<!-- make gpu: begin --> stale <!-- make gpu: end -->y")
    again = contact(steps(""), "--steps", "none", gpus=0)
    assert "stale" not in again
    assert "| a |" in again
    assert "| b |" in again


def test_nothing_is_changed_without_a_gpu(contact, plan, tmp_path):
    before = contact.page.read_text()
    steps = {1: plan.Step("", [plan.Run("a", program_of("print()"), 20)])}
    with pytest.raises(SystemExit) as caught:
        contact(steps, gpus=0)
    assert "no GPU" in str(caught.value)
    assert contact.page.read_text() == before
    assert not contact.results.exists()


def test_the_budget_is_kept_and_what_was_left_out_is_named(contact, plan):
    sleep = program_of("import time; time.sleep(60)")
    steps = {1: plan.Step("", [plan.Run("slow", sleep, 60), plan.Run("late", sleep, 60)])}
    with within(17), pytest.raises(SystemExit) as caught:
        contact(steps, minutes=17 / 60)
    assert str(caught.value).endswith(": late")
    assert "stopped after" in contact.page.read_text()


def test_reasons_cannot_break_the_table(first_contact, pytest_run):
    found = pytest_run("pass")
    text = first_contact("table").make_text({"some": found})
    (row,) = [line for line in text.splitlines() if "test_bad" in line]
    assert r"a \| b &lt;c>" in row
    assert "| abort_s after a kill | 0.31 | `test_some::test_good` |" in text
    assert "2 passed, 1 failed, 1 skipped, 1 error" in text


def test_the_kit_is_installed_once_and_its_nccl_is_for_runs_that_share(
    first_contact, program, tmp_path, monkeypatch
):
    running, cache, kit = first_contact("running"), tmp_path / "cache", tmp_path / "kit"
    alone = running.Run("a", (), 1.0, nccl="stock")
    assert "LD_PRELOAD" not in running.environment(alone, tmp_path, cache)
    write = program("kit", "wheel").write_wheel
    for folder, files in (("site", {"jd_one.py": b"1"}), ("nccl", {running._LIBRARY: b"2"})):
        (kit / folder).mkdir(parents=True)
        write(kit / folder, f"jd-{folder}", "1", "py3-none-any", files)
    running.install_kit(kit, cache)
    assert (cache / "site" / "jd_one.py").exists()
    monkeypatch.setattr(running.subprocess, "run", None)
    running.install_kit(kit, cache)  # starts nothing
    sharing = running.environment(running.Run("b", (), 1.0, env={"X": "{folder}/x"}), kit, cache)
    assert sharing["LD_PRELOAD"] == str(cache / "nccl" / running._LIBRARY)
    assert sharing["PYTHONPATH"].split(":")[:2] == [str(cache / "nccl"), str(cache / "site")]
    assert sharing["X"] == f"{kit}/x"
    without = running.environment(alone, tmp_path, cache)
    assert "LD_PRELOAD" not in without
    assert str(cache / "nccl") not in without["PYTHONPATH"]


def test_pip_installs_the_wheel(program, tmp_path):
    wheel = program("kit", "wheel")
    path = wheel.write_wheel(
        tmp_path, "a-library", "1.2+sm90", "py3-none-any", {"a/lib/liba.so.2": b"\x7fELF" * 99}
    )
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", str(tmp_path / "site"), str(path)], check=True, timeout=60)
    assert (tmp_path / "site" / "a/lib/liba.so.2").read_bytes() == b"\x7fELF" * 99
    assert (tmp_path / "site" / "a_library-1.2+sm90.dist-info").is_dir()
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
