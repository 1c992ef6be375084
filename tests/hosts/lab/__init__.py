"""A lab of several hosts on one machine: network namespaces, each with an sshd of its own."""

from .hosts_lab import HostsLab
from .system import why_not

__all__ = ["HostsLab", "why_not"]
