"""The report for CI."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from jupyter_dist.cli.jobs.junit import Case, check_writable, write_junit
from jupyter_dist.errors import UsageError


def test_a_report_counts_its_cases_and_has_what_xml_accepts(tmp_path):
    cases = [
        Case(name="cell 1: x", seconds=0.25),
        Case(name="cell 2", seconds=1.0, failure="\x1b[31mE\x1b[0m: \x00<&", details="a\nb"),
        Case(name="cell 3", seconds=0.0, was_run=False),
    ]
    write_junit(tmp_path / "x.xml", "train.ipynb", cases)
    (suite,) = ET.parse(tmp_path / "x.xml").getroot()
    counts = {name: suite.get(name) for name in ("tests", "failures", "skipped", "time")}
    assert counts == {"tests": "3", "failures": "1", "skipped": "1", "time": "1.250"}
    failure = suite.find("testcase/failure")
    assert (failure.get("message"), failure.text) == ("E: <&", "a\nb")
    assert suite.find("testcase[@name='cell 3']/skipped") is not None


@pytest.mark.parametrize("name", [".", "none/x.xml"])
def test_a_place_that_cannot_be_written_is_refused_before_anything_starts(tmp_path, name):
    with pytest.raises(UsageError, match="--junit"):
        check_writable("--junit", Path(tmp_path / name))
