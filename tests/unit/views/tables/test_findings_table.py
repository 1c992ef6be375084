import pytest
from fakes.notebook import Page

from jupyter_dist.cluster.doctor.diagnosis import NOTEBOOK, SUBJECTS, Diagnosis, Finding
from jupyter_dist.views.cell.terminal import Terminal
from jupyter_dist.views.tables.findings_table import (
    MOST_COLUMNS,
    findings_html,
    findings_text,
)
from jupyter_dist.views.tables.findings_view import FindingsView

CLOSED = Finding("b", "ssh", "bad", "connection refused", "Start sshd.")
LATE = Finding("a", "clock", "warning", "its clock is 9 s ahead", "Let NTP set it.", "+9 s")


def good(host, subject, brief=""):
    return Finding(host, subject, "good", "", "", brief)


def diagnosis_of(*findings, hosts=("a", "b"), versions=None):
    return Diagnosis(tuple(hosts), findings, versions or {})


def lines_of(diagnosis, **options):
    return findings_text(diagnosis, **options).splitlines()


def test_subjects_are_rows_and_hosts_are_columns():
    diagnosis = diagnosis_of(
        good("a", "python", "3.11.7"), CLOSED, LATE, good("a", "ssh", "0.3 s"), good("b", "home")
    )
    assert lines_of(diagnosis)[:5] == [
        "        a         b",
        "ssh     ✓ 0.3 s   ✗",
        "python  ✓ 3.11.7  ·",
        "clock   ! +9 s    ·",
        "home    ·         ✓",
    ]


def test_what_is_not_good_stands_below_with_its_next_step_the_worst_first():
    assert lines_of(diagnosis_of(LATE, CLOSED))[4:-2] == [
        "✗ b: ssh: connection refused.",
        "  → Start sshd.",
        "! a: clock: its clock is 9 s ahead.",
        "  → Let NTP set it.",
    ]


def test_the_worst_finding_of_a_cell_gives_its_mark():
    worse = Finding("a", "clock", "bad", "its clock is 9 h ahead", "", "+9 h")
    assert lines_of(diagnosis_of(LATE, worse, hosts=["a"]))[1] == "clock  ✗ +9 h"


def test_one_thing_that_is_true_of_several_hosts_is_said_once():
    same = [Finding(f"n{i}", "disk", "warning", "/tmp full", "Empty it.") for i in range(4)]
    text = findings_text(diagnosis_of(*same, hosts=[each.host for each in same]))
    assert text.count("/tmp full") == 1
    assert "! n[0-3]: disk: /tmp full.\n  → Empty it.\n" in text


def test_what_concerns_no_host_in_particular_names_none():
    finding = Finding("", "network", "bad", "no interface 'x'", "Name another.")
    assert "\n✗ network: no interface 'x'.\n  → Name another.\n" in findings_text(
        diagnosis_of(finding, good("a", "ssh"))
    )


def test_long_sentences_are_wrapped_below_their_beginning():
    finding = Finding("a", "ssh", "bad", "word " * 30, "step " * 30)
    lines = lines_of(diagnosis_of(finding), width=40)[3:-2]
    assert all(len(line) <= 40 for line in lines)
    assert lines[0].startswith("✗ a: ssh: word")
    assert lines[1].startswith("  word")
    step = next(index for index, line in enumerate(lines) if line.startswith("  → step"))
    assert lines[step + 1].startswith("    step")


@pytest.mark.parametrize(
    ("findings", "summary"),
    [
        ([good("a", "ssh")], "2 hosts: all is well"),
        ([CLOSED], "2 hosts: 1 problem (✗)"),
        ([CLOSED, LATE], "2 hosts: 1 problem (✗), 1 warning (!)"),
        ([LATE, Finding("b", "disk", "warning", "x", "y")], "2 hosts: 2 warnings (!)"),
    ],
)
def test_the_last_line_sums_up(findings, summary):
    assert lines_of(diagnosis_of(*findings))[-1] == summary


def test_versions_stand_side_by_side_and_hosts_with_the_same_share_a_column():
    versions = {
        "python": {NOTEBOOK: "3.11.7", "a": "3.11.7", "b": "3.12.1"},
        "numpy": {NOTEBOOK: "2.4.0", "a": "2.4.0"},
    }
    lines = lines_of(diagnosis_of(good("a", "ssh"), versions=versions))
    assert lines[3:6] == [
        "versions  notebook, a  b",
        "python    3.11.7       3.12.1",
        "numpy     2.4.0        -",
    ]


def test_many_hosts_that_look_alike_share_a_column():
    hosts = [f"node{number:02}" for number in range(MOST_COLUMNS + 1)]
    findings = [good(host, "ssh", f"{index} s") for index, host in enumerate(hosts)]
    findings += [good(host, "python", "3.11.7") for host in hosts[:-1]]
    findings.append(Finding(hosts[-1], "python", "bad", "it is too old", "", "3.9.1"))
    assert lines_of(diagnosis_of(*findings, hosts=hosts))[:3] == [
        "        8 hosts   node08",
        "ssh     ✓         ✓ 8 s",  # the eight say different things
        "python  ✓ 3.11.7  ✗ 3.9.1",
    ]


def test_a_few_hosts_keep_a_column_each():
    hosts = [f"node{number}" for number in range(MOST_COLUMNS)]
    head = lines_of(diagnosis_of(*(good(host, "ssh") for host in hosts), hosts=hosts))[0]
    assert head.split() == hosts


def test_a_long_brief_is_cut():
    line = lines_of(diagnosis_of(good("a", "gpus", "x" * 80), hosts=["a"]))[1]
    assert line.endswith("x…")
    assert len(line) < 40


def test_html_says_the_same_as_the_text():
    diagnosis = diagnosis_of(
        CLOSED, LATE, good("a", "ssh", "0.3 s"), versions={"numpy": {"a": "2.4.0"}}
    )
    page = Page(findings_html(diagnosis))
    assert page.rows == [
        ["", "a", "b"],
        ["ssh", "✓ 0.3 s", "✗ "],
        ["clock", "! +9 s", "·"],
        ["versions", "a"],
        ["numpy", "2.4.0"],
    ]
    text = "".join(page.text)
    assert "✗ b: ssh: connection refused.→ Start sshd." in text
    assert text.endswith("2 hosts: 1 problem (✗), 1 warning (!)")


def test_what_a_host_says_stands_on_one_line():
    finding = Finding("a", "ssh", "bad", "one\n2  3", "step\nby step")
    assert lines_of(diagnosis_of(finding))[3:5] == ["✗ a: ssh: one 2 3.", "  → step by step"]


def test_every_subject_has_a_row():
    rows = lines_of(diagnosis_of(*(good("a", each) for each in SUBJECTS), hosts=["a"]))
    assert [row.split()[0] for row in rows[1 : 1 + len(SUBJECTS)]] == list(SUBJECTS)


# --- the view ---


def test_a_notebook_sees_a_line_that_becomes_the_table_or_why_there_is_none(notebook):
    view = FindingsView(["a", "<b>"], display=notebook)
    assert notebook.text == "examining a, <b> …"
    assert "&lt;b&gt;" in notebook.html
    view.finish(diagnosis_of(CLOSED))
    markup, text = findings_html(diagnosis_of(CLOSED)), findings_text(diagnosis_of(CLOSED))
    assert notebook.bundles[1:] == [{"text/html": markup, "text/plain": text}]
    view.fail("not examined: KeyboardInterrupt")
    assert notebook.text == "not examined: KeyboardInterrupt"


@pytest.mark.parametrize("is_tty", [True, False])
def test_a_terminal_is_left_with_the_table_only(is_tty):
    written = []
    view = FindingsView(["a"], display=Terminal(written.append, is_tty=is_tty))
    assert written == (["examining a …"] if is_tty else [])
    view.finish(diagnosis_of(CLOSED))
    assert written[-1] == findings_text(diagnosis_of(CLOSED))
    view.fail("not examined")
    assert written[-1] == findings_text(diagnosis_of(CLOSED))
