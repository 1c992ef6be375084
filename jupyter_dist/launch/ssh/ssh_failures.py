"""Why a command that `remote_command` wrote has failed, in words, and what the user can do.

Whose words to look for is told by the status: ssh has one for its own troubles, and passes on
that of what ran on the host otherwise. The words themselves stand in `ssh_errors`.
"""

import re
import shlex
from collections.abc import Sequence

from jupyter_dist.launch.launcher import Failure
from jupyter_dist.launch.ssh.remote_command import NO_PYTHON, SETUP_FAILED
from jupyter_dist.launch.ssh.ssh_errors import FROM_HOST, FROM_SSH, ErrorPattern
from jupyter_dist.model.ranks.signals import RankSignal
from jupyter_dist.model.spec.cluster_spec import HostSpec
from jupyter_dist.text.said_lines import last_lines, lines_of

SSH_FAILED = 255
"""Status of ssh when it did not get there, or when a signal ended what ran there."""
_MOST_CHARACTERS = 8_000
_CONNECTION_LOST = re.compile(
    r"^(?:client_loop|packet_write|Read from remote host|Write failed|Timeout, server"
    r"|(?:ssh_dispatch_run_fatal: )?Connection (?:to|closed|reset)|Disconnecting"
    r"|Received disconnect|Bytes per second|.*(?:Broken pipe|mux_client))",
    re.MULTILINE,
)
"""What ssh says when a connection that worked has ended before the command did."""
_SILENCED = re.compile(r"-\w*q\w*|.*LogLevel.*", re.IGNORECASE)
_OVER_OTHERS = re.compile(r"^Connection (?:closed by|reset by|to) UNKNOWN port", re.MULTILINE)
_TRY_IT = "Try `{login} true` by hand."
_BY_STATUS = {
    SETUP_FAILED: ErrorPattern("", "a setup command failed ({last})", _TRY_IT),
    NO_PYTHON: ErrorPattern("", "there is no such Python ({last})", "Name one with --python."),
    126: ErrorPattern("", "the shell there could not run a program ({last})", _TRY_IT),
    127: ErrorPattern("", "the shell there did not find a program ({last})", _TRY_IT),
    SSH_FAILED: ErrorPattern(
        "",
        "{last} (status 255)",
        f"{_TRY_IT} If that goes well, a signal has ended what ran there: look for lack of memory.",
    ),
}
_OTHER_STATUS = ErrorPattern("", "{last} (status {status})", _TRY_IT)
_SILENCE = ErrorPattern(
    "",
    "it ended with status {status} and said nothing",
    f"{_TRY_IT} A login shell such as nologin refuses every command.",
)


def tells_end(host: HostSpec, status: int, stderr: str) -> bool:
    """Return whether ssh has ended because what ran on the host has.

    Of a command that a signal has ended it says nothing, with the status of its own troubles; of
    a connection that it has lost it always says something, unless it may not.
    """
    if status < 0:
        return False  # ssh itself was killed here
    if status != SSH_FAILED:
        return True
    is_silenced = any(map(_SILENCED.fullmatch, host.ssh))
    return not is_silenced and _CONNECTION_LOST.search(stderr[-_MOST_CHARACTERS:]) is None


def explain_ssh(host: HostSpec, status: int, stderr: str) -> Failure:
    """Return why the command ended with this status, having said this on stderr."""
    table = FROM_SSH if status == SSH_FAILED else FROM_HOST
    found = _explain_signal(status) or find_saying(table, host, stderr)
    if found is not None:
        return found
    last = last_lines(stderr, 1)
    saying = _BY_STATUS.get(status, _OTHER_STATUS if last else _SILENCE)
    words = {"last": last.rstrip(".") or "it said nothing", "status": str(status)}
    return _fill(saying, {**_known(host), **words})


def find_saying(sayings: Sequence[ErrorPattern], host: HostSpec, text: str) -> Failure | None:
    """Explain a text by the first saying that fits it, or give None."""
    tidy = "\n".join(lines_of(text[-_MOST_CHARACTERS:]))
    for saying in sayings:
        *_, match = (None, *re.finditer(saying.said, tidy, re.MULTILINE))
        if match is not None:
            return _explain_saying(host, saying, match)
    return None


def _explain_saying(host: HostSpec, saying: ErrorPattern, match: re.Match[str]) -> Failure:
    words = {**_known(host), **{name: text or "" for name, text in match.groupdict().items()}}
    if _OVER_OTHERS.search(match.string) is None:
        return _fill(saying, words)
    at = words.get("at", "")
    if at:
        words |= {"place": at, "copy_key": f"ssh-copy-id {words.get('who', '')}@{at}"}
    failure = _fill(saying, words)
    over = f"on the way over {at or 'a jump host or proxy'}, "
    return Failure(over + failure.reason, failure.next_step)


def _known(host: HostSpec) -> dict[str, str]:
    port = ["-p", str(host.port)] if host.port else []
    user = ["-l", host.user] if host.user else []
    target = f"{host.user}@{host.address}" if host.user else host.address
    return {
        "host": host.name,
        "place": host.name,
        "ssh": shlex.join(host.ssh),
        "login": shlex.join([*host.ssh, *port, *user, host.address]),
        "copy_key": shlex.join(["ssh-copy-id", *port, target]),
    }


def _fill(saying: ErrorPattern, words: dict[str, str]) -> Failure:
    reason = saying.reason.format_map(words).rstrip(".")
    return Failure(reason, saying.next_step.format_map(words))


def _explain_signal(status: int) -> Failure | None:
    """Name the signal that ended ssh (negative) or, as shells tell it, a program on the host."""
    try:
        name = RankSignal(-status if status < 0 else status - 128).name
    except ValueError:
        return None
    if status < 0:
        return Failure(f"ssh was ended by {name} on this machine", "Start again.")
    cause = "for lack of memory" if name == RankSignal.SIGKILL.name else "at the end of a job"
    return Failure(
        f"it was ended there by {name}", f"See who sends that, as a system may do {cause}."
    )
