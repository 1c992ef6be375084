"""The report that CI servers read: a test case for each cell of a notebook, or for each rank."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec

from jupyter_dist.errors import UsageError
from jupyter_dist.views.outputs.ansi import strip_ansi

_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a job."""

    name: str
    seconds: float
    failure: str = ""
    """What went wrong, in one line; empty: nothing."""
    details: str = ""
    was_run: bool = True


def check_writable(option: str, path: Path) -> None:
    """Raise UsageError for a file that could not be written in the end."""
    folder = path.absolute().parent
    if not folder.is_dir():
        problem = f"there is no folder {folder}; make it first"
    elif path.is_dir():
        problem = "that is a folder; name a file in it"
    elif not os.access(path if path.exists() else folder, os.W_OK):
        problem = "it may not be written; name another one, or change its mode"
    else:
        return
    raise UsageError(f"{option} {path}: {problem}. Nothing was started.")


def write_junit(path: Path, job: str, cases: Sequence[Case]) -> None:
    """Write what came of a job. Raise OSError."""
    suite = ET.Element(
        "testsuite",
        name=_clean(job),
        tests=str(len(cases)),
        failures=str(sum(bool(case.failure) for case in cases)),
        errors="0",
        skipped=str(sum(not case.was_run for case in cases)),
        time=f"{sum(case.seconds for case in cases):.3f}",
    )
    for case in cases:
        element = ET.SubElement(
            suite,
            "testcase",
            classname=_clean(job),
            name=_clean(case.name),
            time=f"{case.seconds:.3f}",
        )
        if case.failure:
            failure = ET.SubElement(element, "failure", message=_clean(case.failure))
            failure.text = _clean(case.details or case.failure)
        elif not case.was_run:
            ET.SubElement(element, "skipped")
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _clean(text: str) -> str:
    """Return a text without what XML cannot have."""
    return _NO_XML.sub("�", strip_ansi(text))
