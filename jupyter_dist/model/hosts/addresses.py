"""Addresses of one host and one port as texts. Pure."""

from jupyter_dist.errors import UsageError


def join_address(host: str, port: int) -> str:
    """Give `host:port`, with IPv6 hosts in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_address(address: str) -> tuple[str, int]:
    """Split `host:port` or `[::1]:port`; raise UsageError when it is neither."""
    host, _colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not host or not (port.isascii() and port.isdecimal()) or int(port) > 65_535:
        raise UsageError(f"address {address!r}: accepted are host:port and [IPv6]:port.")
    return host, int(port)
