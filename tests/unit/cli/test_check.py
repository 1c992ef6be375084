import json
from types import SimpleNamespace

import pytest
from fakes.cluster import replace_modules

from jupyter_dist.cluster.doctor.diagnosis import Diagnosis, Finding
from jupyter_dist.views.tables.findings_table import findings_text


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
        return SimpleNamespace(hosts=[SimpleNamespace(name="a")])

    def examine(self, spec):
        if self.problem is not None:
            raise self.problem
        return self.diagnosis


@pytest.fixture
def doctor(monkeypatch):
    doctor = Doctor()
    fakes = {
        "cluster.doctor.examination": {"examine": doctor.examine},
        "cluster.spec.specification": {"specify": doctor.specify},
    }
    replace_modules(monkeypatch, fakes)
    return doctor


@pytest.mark.parametrize(("level", "status"), [("good", 0), ("warning", 0), ("bad", 1)])
def test_the_table_is_written_and_only_what_is_bad_makes_status_one(dist, doctor, level, status):
    doctor.level = level
    text = findings_text(doctor.diagnosis)
    assert dist("check") == (status, text, "")
    ended, out, err = dist("check", "--json")
    (finding,) = json.loads(out)["findings"]
    assert (ended, finding["level"], err) == (status, level, text)


def test_where_and_how_are_handed_over(dist, doctor):
    assert dist("check", "--hosts", "a:2", "--tunnel")[0] == 0
    assert doctor.asked == {"hosts": "a:2", "tunnel": True}


def test_an_interrupt_leaves_no_table(dist, doctor):
    doctor.problem = KeyboardInterrupt()
    assert dist("check") == (130, "", "jupyter dist: interrupted\n")
