"""How closely agents look at their hosts: closely only while someone or something needs that."""

from collections.abc import Mapping, Sequence

from jupyter_dist.coordinator.state.clock import NEVER
from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.model.hosts.looks import LOOK_INTERVAL_S
from jupyter_dist.protocol import host_agent_pb2 as pb

LINGER_S = 2.0
"""Agents go on with looking closely for so long: after a cell often comes the next one."""
BRIEF_S = 0.1
"""Work that ends sooner is not looked at closely: agents would take the processors from it."""
_BRIEF_BY_RANK_S = 0.25e-3
"""The same, for each rank: where there are thousands an empty cell takes longer, and to tell all
agents to look closely, and back, is most of what it would cost."""
_BUSY = (EngineState.STARTING, EngineState.BUSY)


class Attention:
    """Tells all agents to look closely, or rarely; they begin with looking closely."""

    def __init__(self, roster: Roster, sender: Sender) -> None:
        self._roster = roster
        self._sender = sender
        self._is_close = True
        self._silent: dict[str, frozenset[str]] = {}
        """Engines that agents were told to be silent, by host."""
        self._told_s = -NEVER
        """When that was."""
        self._since_s = self._until_s = 0.0
        self._busy_s = NEVER
        """Since when there is work without a pause; NEVER: there is none."""

    def tick(
        self,
        is_looked_at: bool,
        has_work: bool,
        silent: Mapping[str, Sequence[str]],
        now_s: float,
    ) -> float:
        """Take in whether someone looks, and whether there is work beside that of busy ranks.

        `silent` has the engines of each host whose heartbeats are missed. Return when to look
        again. Each new agent comes while there is work: in a start, or while ranks are replaced.
        """
        is_busy = has_work or bool(silent) or self._is_any_rank_busy()
        self._busy_s = min(self._busy_s, now_s) if is_busy else NEVER
        closely_s = self._busy_s + max(BRIEF_S, _BRIEF_BY_RANK_S * self._roster.world_size)
        if is_looked_at or (is_busy and (self._is_close or now_s >= closely_s)):
            self._until_s = now_s + LINGER_S
        is_close = now_s < self._until_s
        due_s = self._until_s if is_close else closely_s
        if silent or self._silent or is_close != self._is_close:
            due_s = min(due_s, self._tell(is_close, silent, now_s))
        return due_s

    def _tell(self, is_close: bool, silent: Mapping[str, Sequence[str]], now_s: float) -> float:
        """Tell agents what is new to them; return when that is due, if not now.

        On a crowded machine many engines are silent in turn, so news of them are gathered.
        """
        before, after = self._silent, dict[str, frozenset[str]]()
        if silent:  # those that have answered again are told when all have
            after = {
                host: before.get(host, frozenset()).union(silent.get(host, ()))
                for host in self._roster.hosts
                if host in before or host in silent
            }
        hosts = [host for host in self._roster.hosts if before.get(host) != after.get(host)]
        due_s = self._told_s + LOOK_INTERVAL_S
        if hosts and now_s < due_s:
            return due_s
        if hosts:
            self._told_s, self._silent = now_s, after
        if is_close != self._is_close:
            self._is_close, self._since_s, hosts = is_close, now_s, list(self._roster.hosts)
        for host in hosts:
            command = pb.Observe(is_close=is_close, silent=sorted(self._silent.get(host, ())))
            self._sender.to_agent(host, pb.AgentCommand(observe=command))
        return NEVER

    def is_fresh(self) -> bool:
        """Return whether every host has told what is seen there since it is looked at closely."""
        hosts = [host for host in self._roster.hosts.values() if host.joined and not host.is_lost]
        return self._is_close and all(host.looked_s >= self._since_s for host in hosts)

    def _is_any_rank_busy(self) -> bool:
        return any(
            engine.state in _BUSY or (engine.task and engine.is_present)
            for engine in self._roster.engines
        )
