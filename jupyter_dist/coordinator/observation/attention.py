"""How closely agents look at their hosts: closely only while someone or something needs that."""

from jupyter_dist.coordinator.state.clock import NEVER
from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.coordinator.state.sender import Sender
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
        self._since_s = self._until_s = 0.0
        self._busy_s = NEVER
        """Since when there is work without a pause; NEVER: there is none."""

    def tick(self, is_looked_at: bool, has_work: bool, now_s: float) -> float:
        """Take in whether someone looks, and whether there is work beside that of busy ranks.

        Return when to look again. Each new agent comes while there is work: in a start, or while
        ranks are replaced.
        """
        is_busy = has_work or self._is_any_rank_busy()
        self._busy_s = min(self._busy_s, now_s) if is_busy else NEVER
        closely_s = self._busy_s + max(BRIEF_S, _BRIEF_BY_RANK_S * self._roster.world_size)
        if is_looked_at or (is_busy and (self._is_close or now_s >= closely_s)):
            self._until_s = now_s + LINGER_S
        is_close = now_s < self._until_s
        if is_close != self._is_close:
            self._is_close, self._since_s = is_close, now_s
            command = pb.AgentCommand(observe=pb.Observe(is_close=is_close))
            for host in self._roster.hosts:
                self._sender.to_agent(host, command)
        return self._until_s if is_close else closely_s

    def is_fresh(self) -> bool:
        """Return whether every host has told what is seen there since it is looked at closely."""
        hosts = [host for host in self._roster.hosts.values() if host.joined and not host.is_lost]
        return self._is_close and all(host.told_s >= self._since_s for host in hosts)

    def _is_any_rank_busy(self) -> bool:
        return any(
            engine.state in _BUSY or engine.is_suspect or (engine.task and engine.is_present)
            for engine in self._roster.engines
        )
