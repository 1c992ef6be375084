"""Writes what was found on a GPU into a page, between two markers."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- make gpu: begin -->", "<!-- make gpu: end -->"
_LONGEST_LINE = 160
Found = Mapping[str, Any]
"""What each run has found, by its name."""


def write_into(page: Path, text: str) -> None:
    """Put the text between the markers of a page; raises ValueError where they are not."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no {BEGIN} with an {END} behind it")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def make_text(found: Found) -> str:
    """Return all of it as Markdown."""
    parts = [_machine(found), _runs(found), _tests(found), _measured(found), _hung(found)]
    parts += [_captures(found), _overhead(found), _bandwidth(found)]
    return "\n\n".join(part for part in parts if part)


def _machine(found: Found) -> str:
    dates = sorted({run["begun"][:10] for run in found.values()})
    facts = _report(found, "facts")
    words = [f"Found on {' and '.join(dates[:1] + dates[1:][-1:])}"]
    words += [f"on {facts['gpus']} {facts['gpu']}"] if facts.get("gpu") else []
    versions = {"driver": facts.get("driver"), **facts.get("versions", {})}
    told = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    sharing = _report(found, "overhead").get("versions", {}).get("nccl")
    if sharing:
        told += f"; NCCL {_release(sharing)} in the runs that share a GPU and in the figures"
    return f"{' '.join(words)}{f': {told}' if told else ''}."


def _release(code: int) -> str:
    return f"{code // 10_000}.{code // 100 % 100}.{code % 100}"


def _runs(found: Found) -> str:
    rows = []
    for name, run in found.items():
        counts = Counter(test["outcome"] for test in run["tests"])
        told = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        told = told or ("figures" if run["report"] else "nothing")
        rows.append((name, run["nccl"], told, _end(run), f"{run['wall_s']:.0f}"))
    return _grid(("run", "NCCL", "what it told", "how it ended", "s"), rows)


def _end(run: Mapping[str, Any]) -> str:
    """Say how a run ended; of a program that told nothing, with its last line."""
    end = run["ended"] or ("ended" if run["code"] == 0 else f"ended with {run['code']}")
    lines = [line for line in run["tail"].splitlines() if line.strip()]
    if run["code"] == 0 or run["tests"] or run["report"] or not lines:
        return end
    return f"{end}: {_escape(lines[-1][:_LONGEST_LINE])}"


def _tests(found: Found) -> str:
    rows = [
        (
            f"`{test['name']}`",
            run["nccl"],
            test["outcome"],
            f"{test['seconds']:.1f}",
            _escape(test["reason"]),
        )
        for run in found.values()
        for test in run["tests"]
        if test["outcome"] != "passed"
    ]
    return _grid(("test that did not pass", "NCCL", "outcome", "s", "reason"), rows)


def _measured(found: Found) -> str:
    rows = [
        (name, value, f"`{test['name']}`")
        for run in found.values()
        for test in run["tests"]
        for name, value in test["figures"].items()
    ]
    return _grid(("measured by a test", "value", "test"), rows)


def _hung(found: Found) -> str:
    """How long another thread was kept waiting while the main one waited behind a hung kernel."""
    waits = _report(found, "facts").get("blocked_s", {})
    names = list(next(iter(waits.values()), {}))
    rows = [(what, *(f"{row[name]:.3f}" for name in names)) for what, row in waits.items()]
    return _grid(("behind a hung kernel", *(f"{name}, s" for name in names)), rows)


def _captures(found: Found) -> str:
    """What became of a graph's capture while another thread asked for an event from before."""
    captures = _report(found, "facts").get("captures", {})
    rows = [(mode, _escape(said)) for mode, said in captures.items()]
    return _grid(("capture beside a thread that asks for an event", "outcome"), rows)


def _overhead(found: Found) -> str:
    reports = {
        "default": _report(found, "overhead").get("median_us", {}),
        "`NCCL_COMM_BLOCKING=1`": _report(found, "overhead_blocking").get("median_us", {}),
    }
    names = list(next(filter(None, reports.values()), {}))
    rows = [
        (title, *(f"{medians.get(name, 0):.1f}" for name in names))
        for title, medians in reports.items()
        if medians
    ]
    return _grid(("one all_reduce of one rank, host's µs", *names), rows)


def _bandwidth(found: Found) -> str:
    report = _report(found, "sweep")
    medians, size = report.get("median_us", {}), report.get("ranks", 0)
    names = list(next(iter(medians.values()), {}))
    limit = _report(found, "facts").get("copy_gb_per_s")
    rows = []
    for nbytes, row in medians.items():
        factor = int(nbytes) * 2 * (size - 1) / size / 1e3
        cells = (f"{factor / row[name]:.2f}" for name in names)
        rows.append((nbytes, *cells, f"{limit:.0f}" if limit else "not measured"))
    title = f"bytes; bus bandwidth of {size} ranks, GB/s"
    return _grid((title, *names, "limit: a copy within the GPU"), rows)


def _report(found: Found, name: str) -> Mapping[str, Any]:
    return found.get(name, {}).get("report") or {}


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _grid(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    def lines() -> Iterator[str]:
        yield f"| {' | '.join(head)} |"
        yield "|---" * len(head) + "|"
        for row in rows:
            yield f"| {' | '.join(row)} |"

    return "\n".join(lines()) if rows else ""
