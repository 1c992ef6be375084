"""Agents under way: started, invited, and explained when one does not come."""

import contextlib
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from jupyter_dist.launch.batch.batch_text import explain_long_wait, with_last_lines
from jupyter_dist.launch.launcher import AgentProcess, Failure, JoinTicket, Launcher, LaunchProgress
from jupyter_dist.model.spec.cluster_spec import HostSpec
from jupyter_dist.model.spec.shutdown_time import AGENT_END_S, JOB_END_S
from jupyter_dist.text.lists import group_pairs, name_some
from jupyter_dist.text.plurals import count_of
from jupyter_dist.text.said_lines import last_lines

if TYPE_CHECKING:
    from jupyter_dist.launch.batch.job_watch import JobWatch

_LAST_WORDS_S = 3.0
"""So long at most, for all hosts together."""
OTHERS_GRACE_S = 3.0
"""After one host failed, the others may fail as well for so long: all of them are told at once."""


class Arrivals:
    """Every agent that someone has to start, by host."""

    def __init__(
        self, launchers: dict[str, Launcher], log_dir: Path, job: "JobWatch | None" = None
    ) -> None:
        self._launchers = launchers
        self.job = job
        """The batch job that starts agents of hosts that join; None: they come on their own."""
        self._log_dir = log_dir
        self._agents: dict[str, AgentProcess] = {}
        self._former: list[AgentProcess] = []
        """Agents of hosts that have got another one since."""
        self._invitations: dict[str, JoinTicket] = {}
        self._failing_since_s: float | None = None
        self._reasons: dict[str, str] = {}
        """Why hosts have not come, by host: their logs are read once."""
        self.began_s = monotonic()
        """When the first agent was started."""
        self.join_path: Path | None = None
        """Where the join file is, when agents are to come on their own."""

    def start(self, hosts: Sequence[HostSpec]) -> None:
        """Start the agents of these hosts, all at once; those that join by file come themselves."""
        self.began_s = monotonic()
        for host in hosts:
            if host.launcher != "join":
                self._agents[host.name] = self._launchers[host.launcher].start(host)

    def invite(self, host: str, ticket: JoinTicket) -> None:
        """Tell the agent of this host where home is."""
        self._invitations[host] = ticket
        if host in self._agents:
            self._agents[host].invite(ticket)

    def restart(self, host: HostSpec) -> None:
        """Start and invite a new agent on a host whose agent is gone; not if it came on its own."""
        before = self._agents.get(host.name)
        if before is None:
            return
        before.terminate()
        self._former.append(before)
        agent = self._agents[host.name] = self._launchers[host.launcher].start(host)
        agent.invite(self._invitations[host.name])

    def has_ended(self, host: str) -> bool:
        """Return whether the agent of this host is known to have ended."""
        agent = self._agents.get(host)
        if agent is None:
            return self.job is not None and bool(self.job.problem)
        return agent.has_ended()

    def why_not_back(self, host: str) -> str:
        """Return why no agent will come from this host; empty while one may."""
        agent = self._agents.get(host)
        if agent is None and self.job is not None:
            ended = f"; {self.job.problem}" if self.job.problem else ""
            return f"{self.job.label} has started its agent, and starts each of them once{ended}"
        if agent is None:
            return "its agent was not started from here"
        return "" if agent.poll() is None else str(agent.explain()).rstrip(".")

    def waited_s(self, host: str) -> float:
        """Return for how long the agent of a host has waited for a core, as far as is known."""
        agent = self._agents.get(host)
        return 0.0 if agent is None else agent.waited_s()

    def describe_waiting(self, hosts: Collection[str]) -> str:
        """Return what these hosts, which have not joined, are doing."""
        started = [host for host in hosts if host in self._agents]
        joiners = len(hosts) - len(started)
        groups = group_pairs((self._agents[host].stage, host) for host in started)
        parts = [f"{name_some(names)} ({stage})" for stage, names in groups.items()]
        if joiners and self.job is not None:
            job = self.job
            parts.append(f"{count_of(joiners, 'host')} of {job.label} ({job.words}{job.last_line})")
        elif joiners:
            agents = "an agent" if joiners == 1 else f"{joiners} agents"
            path = shlex.quote(str(self.join_path))
            parts.append(f"{agents} to join: jupyter dist agent --join {path}")
        return f"waiting for {'; '.join(parts)}"

    def progress(self, host: str) -> LaunchProgress | None:
        """Return how far the agent of a host is; None: nobody has started one from here."""
        agent = self._agents.get(host)
        if agent is None and self.job is not None:
            stage = f"{self.job.label}: {self.job.words}"
            return LaunchProgress(stage, problem=self.job.problem, is_queued=self.job.is_pending)
        if agent is None:
            return None
        if agent.poll() is not None and host not in self._reasons:
            self._reasons[host] = agent.explain().reason
        return LaunchProgress(
            agent.stage,
            is_connecting=not agent.is_running,
            problem=self._reasons.get(host, ""),
        )

    def problem(self, missing: Collection[str], now_s: float) -> str:
        """Return why the start cannot succeed, once all that will fail has failed; else empty."""
        if missing and self.job is not None and (why := self.job.why_nobody_comes):
            return with_last_lines(why, self.job.said)
        started = [host for host in missing if host in self._agents]
        failed = [host for host in started if self._agents[host].poll() is not None]
        if not failed:
            return ""
        if self._failing_since_s is None:
            self._failing_since_s = now_s
        if len(failed) < len(started) and now_s - self._failing_since_s < OTHERS_GRACE_S:
            return ""
        return _describe({host: self._agents[host].explain() for host in failed})

    def explain_missing(self, missing: Collection[str]) -> str:
        """Return what came last from hosts that have not joined in time."""
        known = {host: self._agents[host].explain() for host in missing if host in self._agents}
        joiners = len(missing) - len(known)
        text = _describe(known)
        if joiners and self.job is not None:
            return _explain_late(joiners, self.job)
        if joiners:
            agents = "an agent" if joiners == 1 else f"{joiners} agents"
            text = f"{agents} did not join with {self.join_path}. {text}"
        return text.strip()

    def log_tail(self, left: Collection[str]) -> str:
        """Return the last lines of all that agents have said.

        Of hosts whose agents have left, once those have ended: ssh may bring what the processes
        there have said last after the agent's own word, which takes another way.
        """
        deadline_s, parts = monotonic() + _LAST_WORDS_S, []
        for host in self._agents.keys() & set(left):
            self._agents[host].wait(max(0.0, deadline_s - monotonic()))
        with contextlib.suppress(OSError):  # no file descriptor is left: no reason to end
            for path in sorted(self._log_dir.glob("agent-*.log")):
                text = last_lines(path.read_text(errors="replace"), 30)
                if text:
                    parts.append(text if len(self._agents) == 1 else f"[{path.stem}]\n{text}")
        if self.job is not None and self.job.said:
            parts.append(self.job.said)
        return "\n".join(parts)

    def abandon(self) -> None:
        """End all agents of a start that came to nothing."""
        self.terminate()
        self.end(AGENT_END_S)

    def terminate(self, hosts: Collection[str] | None = None) -> None:
        """Ask the agents of these hosts (None: of all) to end; a job goes as a whole."""
        if self.job is not None and (hosts is None or hosts):
            self.job.cancel()
        for host, agent in self._agents.items():
            if hosts is None or host in hosts:
                agent.terminate()

    def end(self, timeout_s: float) -> None:
        """Wait until all have ended, and end those that do not."""
        deadline_s = monotonic() + timeout_s
        for agent in (*self._former, *self._agents.values()):
            if agent.wait(max(0.0, deadline_s - monotonic())) is None:
                agent.kill()
        if self.job is not None:
            self.job.end(max(timeout_s, JOB_END_S))
        self.remove_join_file()

    def remove_join_file(self) -> None:
        """Remove the join file, when there is one and nobody else may use it."""
        if self.join_path is not None:
            with contextlib.suppress(FileNotFoundError):
                self.join_path.unlink()


def _explain_late(count: int, job: "JobWatch") -> str:
    """Return why hosts of a job that has not ended are not there in time, and what may help."""
    state = f"{job.label}: {job.words}"
    if job.is_pending:
        return explain_long_wait(state)
    return with_last_lines(
        f"{state}; {count_of(count, 'agent')} did not join. Each node must see the directory of "
        "the join file (--job-dir DIR), have this jupyter-dist (--python PATH), and reach this "
        "machine (--interface, --ports).",
        job.said,
    )


def _describe(failures: dict[str, Failure]) -> str:
    """Write one sentence for each host, and below them what each has said last."""
    sentences = "\n".join(f"{host}: {failure}" for host, failure in failures.items())
    if len(failures) > 1:
        sentences = f"{len(failures)} hosts failed. {sentences}"
    said = [
        f"--- {host} said last ---\n{failure.last_lines}"
        for host, failure in failures.items()
        if failure.last_lines
    ]
    return "\n".join([sentences, *said])
