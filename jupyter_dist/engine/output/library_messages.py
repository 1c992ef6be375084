"""What C and C++ libraries say of their own affairs: kept in the log, left out of cell output.

Only whole lines of forms that are known to the letter are left out. Fatal lines (F) and what
follows them stay, and so does whatever a user wrote.
"""

import re

_GLOO = (
    r"\[Gloo\] Rank \d+ is connected to \d+ peer ranks\."
    r" Expected number of connected peer ranks is : \d+"
)
_ABSL_IS_EARLY = (
    r"WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR"
)
_ABSL = (
    r"[IWE]\d{4} \d\d:\d\d:\d+\.\d+ +\d+ "
    r"(?:(?:coordination_service(?:_agent)?|grpc_coordination_client"
    r"|preemption_notifier|preemption_sync_manager)\.cc:\d+\] "
    r"|(?:client|service)\.cc:\d+\] "
    r"(?:Jax service |Distributed task |[^\n]*(?:[Cc]oordination service|distributed JAX)))"
    r"[^\n]*"
)
"""Of the coordination service of JAX and of its clients, with any clock that absl uses."""
_MORE_OF_ABSL = (
    r"(?:(?:\n(?:\d+|/job:jax_worker/\S+)?)*"
    r"\n(?:The tasks have crashed\. |RPC: /[\w.]*CoordinationService/)[^\n]*)*"
)
"""Lines that belong to the one before: names of tasks, advice, the call that failed."""
_C10D = (
    r"(?:\[rank\d+\]:)?\[W\d{4} \d\d:\d\d:\d+(?:\.\d+)? socket\.cpp:\d+\] \[c10d\] "
    r"The (?:(?:client|server) socket cannot be initialized (?:to connect to|on) "
    r"|hostname of the client socket cannot be retrieved\. "
    r"|(?:IPv[46] )?network addresses of \()[^\n]*"
)
"""Of addresses that torch's store tries before it finds one that works."""
_CHATTER = re.compile(
    rf"(?:(?<=[\r\n])|\A)(?:{_GLOO}|{_ABSL_IS_EARLY}|{_ABSL}{_MORE_OF_ABSL}|{_C10D})\r?(?:\n|\Z)"
)
_SIGNS = ("[Gloo] Rank ", "absl::InitializeLog", ".cc:", " socket.cpp:")
"""Each line of chatter has one of them."""
_BEGINNING = re.compile(
    r"\[Gloo\] Rank |WARNING: All log messages before absl|[IWE]\d{4} \d\d:"
    r"|(?:\[rank\d+\]:)?\[W\d{4} \d\d:"
)


def drop_chatter(text: str) -> str:
    """Leave chatter out of text that begins where a line does, or where one went on."""
    if not any(sign in text for sign in _SIGNS):
        return text
    return _CHATTER.sub("", text)


def may_become_chatter(half_line: str) -> bool:
    """Return whether a line that has no end yet begins as chatter does."""
    return _BEGINNING.match(half_line) is not None
