"""The report on bad moments: medians of seconds, words with how often they were said."""

import json
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from report import RESULTS, machine_lines, row

ROOT = Path(__file__).parents[1]
TITLES = {
    "a_rank_raises": "Rank 1 of 4 raises; the others are busy for 12 s more",
    "c_code_is_interrupted": "■ at 4 s while all 4 ranks are in a C call of about 30 s",
    "a_rank_is_killed": "SIGKILL for rank 2 of 4",
}
_TEXTS = ("said", "said by the next cell", "said by the cell on survivors", "said then")
"""What was on the screens: in the JSON only."""
Key: TypeAlias = tuple[str, str, str]
"""Story, contender, way."""


@dataclass
class Findings:
    """What was found in every trial."""

    facts: dict[Key, list[dict[str, Any]]] = field(default_factory=dict)
    missing: dict[Key, str] = field(default_factory=dict)

    def add(self, trial: Any, facts: dict[str, Any]) -> None:
        """Take in one telling of a story."""
        self.facts.setdefault((trial.story, trial.contender, trial.way), []).append(facts)

    def miss(self, trial: Any, reason: str) -> None:
        """Note why a story could not be told to its end."""
        self.missing[trial.story, trial.contender, trial.way] = reason


def write_findings(
    findings: Findings,
    machine: Mapping[str, Any],
    versions: Mapping[str, Mapping[str, str]],
    leftovers: Mapping[str, int],
) -> str:
    """Write failures.md, which is returned, and failures.json."""
    lines = ["# Bad moments, beside the rivals\n", *machine_lines(machine, versions)]
    lines.append(
        "\nSeconds are medians (least to most); words were the same in every round, or counted."
    )
    for story, title in TITLES.items():
        lines += _table(findings, story, title)
    if findings.missing or leftovers:
        lines.append("\n## What is missing, and what was left\n")
    lines += [f"- {', '.join(key)}: {reason}" for key, reason in findings.missing.items()]
    lines += [
        f"- {count} processes were left by {name}; the benchmark ended them"
        for name, count in leftovers.items()
    ]
    text = "\n".join(lines)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "failures.md").write_text(text + "\n")
    everything = {
        "machine": machine,
        "versions": versions,
        "trials": [
            {"story": story, "contender": contender, "way": way, "rounds": rounds}
            for (story, contender, way), rounds in sorted(findings.facts.items())
        ],
        "missing": [[*key, reason] for key, reason in findings.missing.items()],
        "processes_left_after_stop": leftovers,
    }
    samples = json.dumps(everything, indent=1)
    for folder, name in ((f"{ROOT}/", ""), (sys.prefix, "venv"), (str(Path.home()), "~")):
        samples = samples.replace(folder, name)  # tracebacks name files of this machine
    (RESULTS / "failures.json").write_text(samples + "\n")
    return text


def _table(findings: Findings, story: str, title: str) -> Iterator[str]:
    keys = sorted(
        (key for key in findings.facts if key[0] == story),
        key=lambda key: (key[1] != "ours", key[1], key[2]),
    )
    if not keys:
        return
    names = dict.fromkeys(name for key in keys for facts in findings.facts[key] for name in facts)
    yield f"\n## {title}\n"
    yield row(["", *(f"{contender}: {way}" for _, contender, way in keys)])
    yield row(["---"] * (len(keys) + 1))
    for name in names:
        if name not in _TEXTS:
            columns = [[facts.get(name) for facts in findings.facts[key]] for key in keys]
            cells = [_cell(values, name) for values in columns]
            yield row([name.replace("_s", ", s"), *cells])


def _cell(values: Sequence[Any], name: str) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    if not name.endswith("_s"):
        counts = Counter(str(value).replace("|", "\\|").replace("\n", " ") for value in known)
        if len(counts) == 1:
            return next(iter(counts))
        return "; ".join(f"{count} times: {word}" for word, count in counts.most_common())
    never = f", never in {len(values) - len(known)}" if len(known) < len(values) else ""
    spread = f" ({min(known):.2f} to {max(known):.2f})" if len(known) > 1 else ""
    return f"{statistics.median(known):.2f}{spread}{never}"
