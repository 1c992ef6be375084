"""What programs have said when they failed is in failures.txt with what is told of it, for people to judge.

To write that file again after a change: REWRITE_GOLDEN=1 python -m pytest tests/unit/launch/test_failures.py
"""

import os
import re
from ast import literal_eval
from pathlib import Path
from typing import NamedTuple

import pytest

from jupyter_dist.launch.batch.batch_errors import FROM_NODES, explain_output, next_step
from jupyter_dist.launch.ssh.install import FROM_PIP, explain_install
from jupyter_dist.launch.ssh.ssh_errors import FROM_HOST, FROM_SSH
from jupyter_dist.launch.ssh.ssh_failures import explain_ssh
from jupyter_dist.model.spec.cluster_spec import HostSpec

GOLDEN = Path(__file__).parent / "failures.txt"
HOST = HostSpec("nodeA", port=2222, user="bob")
PIP_HAS_BEGUN = "jupyter-dist: pip shall install jupyter-dist==1.2.0 for /opt/env/bin/python\n"
BANNER = """\
Authorized use only.
Permission denied to everybody else.
Connection refused at the gate.
Host key verification failed, you may think.
"""
PROFILE = """\
/etc/profile: line 3: module: command not found
bash: warning: setlocale: LC_ALL: cannot change locale (en_US.UTF-8)
Permission denied (publickey) is what intruders see here.
"""
AGENT_OF_ANOTHER_NODE = "joined cluster fit as nodeA; this agent ends with it\n"


class Case(NamedTuple):
    """One failure; `speaker` is a title of the file, as `ssh` or `pip, status 92`."""

    speaker: str
    said: str
    told: str


def read_cases():
    speaker, said = "", []
    for line in GOLDEN.read_text().splitlines():
        if line.startswith("## "):
            speaker, said = line[3:], []
        elif line.startswith("=> "):
            yield Case(speaker, "\n".join(said), line[3:])
            said = []
        else:
            said.append(line)


CASES = list(read_cases())


def explain(speaker, said, before=""):
    """What is told of a failure, of which these words and those before them are known.

    A status of None is of one that was not done in time.
    """
    kind, _, status = speaker.partition(", status ")
    match kind.split()[0]:
        case "ssh":
            told = explain_ssh(HOST, 255, f"{before}{said}\n".replace("\n", "\r\n"))
        case "host":
            told = explain_ssh(HOST, int(status), f"{before}{said}\n")
        case "pip":
            told = explain_install(HOST, literal_eval(status), f"{PIP_HAS_BEGUN}{said}\n")
        case "node":
            told = explain_output(f"{AGENT_OF_ANOTHER_NODE}{said}\n")
        case "scheduler":
            return next_step(kind.split()[1], said)
    return str(told)


def test_every_failure_is_told_as_the_file_has_it():
    head, *_ = GOLDEN.read_text().partition("## ")
    lines, speaker = [head.rstrip()], ""
    for case in CASES:
        if case.speaker != speaker:
            speaker = case.speaker
            lines += ["", f"## {speaker}"]
        lines += [case.said, f"=> {explain(case.speaker, case.said)}"]
    text = "\n".join([*lines, ""])
    if os.environ.get("REWRITE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


@pytest.mark.parametrize(
    "case",
    # Where sshd itself gives no reason, the last line before is all there is.
    [
        case
        for case in CASES
        if case.said
        and case.speaker.startswith(("ssh", "host"))
        and not case.told.startswith(("sshd closed the connection at the login", "on the way over"))
    ],
)
def test_what_banners_and_profiles_say_before_changes_nothing(case):
    before = BANNER if case.speaker == "ssh" else PROFILE
    assert explain(case.speaker, case.said, before) == case.told


@pytest.mark.parametrize(
    ("patterns", "speakers"),
    [(FROM_SSH, "ssh"), (FROM_HOST, "host"), (FROM_PIP, "pip"), (FROM_NODES, "node")],
    ids=["ssh", "host", "pip", "node"],
)
def test_every_pattern_is_the_first_that_fits_a_real_text(patterns, speakers):
    said = [case.said for case in CASES if case.speaker.startswith(speakers)]
    first = [
        next((each for each in patterns if re.search(each.said, text, re.MULTILINE)), None)
        for text in said
    ]
    assert [each.said for each in patterns if each not in first] == []


@pytest.mark.parametrize("said", ["", "srun: error: nodeB: task 1: Exited with exit code 1"])
def test_output_that_explains_nothing_gives_no_reason(said):
    assert explain_output(f"{AGENT_OF_ANOTHER_NODE}{said}") is None


def test_a_nodes_reason_comes_with_its_last_lines():
    said = f"{AGENT_OF_ANOTHER_NODE}ModuleNotFoundError: No module named 'msgspec'"
    assert explain_output(said).last_lines == said
