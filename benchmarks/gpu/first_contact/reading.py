"""Reads what pytest writes of each test (junit XML)."""

import contextlib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

_OUTCOMES = {"failure": "failed", "error": "error", "skipped": "skipped"}
_LONGEST = 200


def read_tests(path: Path) -> list[dict[str, Any]]:
    """Return what became of each test, its seconds, reason and figures; none without a file."""
    with contextlib.suppress(OSError, ET.ParseError):
        root = ET.parse(path).getroot()
        found: dict[str, dict[str, Any]] = {}
        for case in root.iter("testcase"):
            test = _read_case(case)
            # One that fails and then cannot be cleaned up is told twice.
            if found.get(test["name"], test)["outcome"] in ("passed", test["outcome"]):
                found[test["name"]] = test
        return list(found.values())
    return []


def _read_case(case: ET.Element) -> dict[str, Any]:
    outcome, reason = "passed", ""
    for child in case:
        if child.tag in _OUTCOMES:
            outcome = _OUTCOMES[child.tag]
            reason = " ".join(child.get("message", "").split())[:_LONGEST]
    figures = {each.get("name", ""): each.get("value", "") for each in case.iter("property")}
    module = case.get("classname", "").rpartition(".")[2]
    return {
        "name": f"{module}::{case.get('name', '')}",
        "outcome": outcome,
        "seconds": round(float(case.get("time", 0)), 1),
        "reason": reason,
        "figures": figures,
    }
