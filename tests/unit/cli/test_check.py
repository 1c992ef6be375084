import sys
from types import ModuleType, SimpleNamespace

import pytest

from jupyter_dist.cli.__main__ import main
from jupyter_dist.errors import UsageError
from jupyter_dist.model.diagnosis import Diagnosis, Finding
from jupyter_dist.views.findings_table import findings_text


class Doctor:
    """Finds what the test wants, and remembers what it was asked."""

    def __init__(self):
        self.level, self.asked, self.problem = "good", None, None

    @property
    def diagnosis(self):
        finding = Finding("a", "ssh", self.level, "it is as it is", "Do something.")
        return Diagnosis(("a",), (finding,), {})

    def specify(self, **asked):
        self.asked = asked
        if asked.get("hosts") == "?":
            raise UsageError("hosts '?': that is no host.")
        return SimpleNamespace(hosts=[SimpleNamespace(name="a")])

    def examine(self, spec):
        if self.problem is not None:
            raise self.problem
        return self.diagnosis


@pytest.fixture
def doctor(monkeypatch):
    doctor = Doctor()
    for name, member in (("doctor", "examine"), ("specification", "specify")):
        module = ModuleType(f"jupyter_dist.cluster.{name}")
        setattr(module, member, getattr(doctor, member))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return doctor


@pytest.fixture
def check(doctor, capsys):
    """Run `jupyter dist check …`; gives (exit status, stdout, stderr)."""

    def run(*argv):
        return main(["check", *argv]), *capsys.readouterr()

    return run


@pytest.mark.parametrize(("level", "status"), [("good", 0), ("warning", 0), ("bad", 1)])
def test_the_table_is_written_and_only_what_is_bad_makes_status_one(check, doctor, level, status):
    doctor.level = level
    assert check() == (status, findings_text(doctor.diagnosis), "")


def test_where_and_how_are_handed_over(check, doctor):
    line = "--hosts a:2 --spec x.toml --python /env --ssh ssh --interface ib0 --tunnel"
    assert check(*line.split())[0] == 0
    assert doctor.asked == {
        "hosts": "a:2",
        "spec_file": "x.toml",
        "python": "/env",
        "ssh": "ssh",
        "interface": "ib0",
        "tunnel": True,
    }


def test_hosts_that_cannot_be_meant_are_one_line_and_status_two(check):
    assert check("--hosts", "?") == (2, "", "jupyter dist: hosts '?': that is no host.\n")


def test_an_interrupt_leaves_no_table(check, doctor):
    doctor.problem = KeyboardInterrupt()
    assert check() == (130, "", "jupyter dist: interrupted\n")
