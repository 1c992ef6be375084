"""What a switch does to the packets of one host, as nft rules; directions as the host sees them."""

HEAD_PORT = "head"
"""Where this machine is plugged into a switch."""
DIRECTIONS = ("both", "in", "out")
# Not what asks who has an address: a host that is silent is otherwise soon one that is unknown.
_TRAFFIC = "meta l4proto { tcp, udp, icmp }"


def drop(ports, direction="both"):
    """Lose everything without a word."""
    return _rules(ports, direction, f"{_TRAFFIC} drop")


def lose(ports, percent):
    """Lose some packets at random, both ways."""
    chance = f"numgen random mod 10000 < {round(percent * 100)}"
    return _rules(ports, "both", f"{_TRAFFIC} {chance} drop")


def block_port(ports, numbers, direction="out"):
    """Lose TCP to some ports of this machine, and with `in` TCP from it to such ports there."""
    return _rules(ports, direction, f"tcp dport {numbers} drop", other=[HEAD_PORT])


def no_route_back(ports, numbers="0-65535"):
    """Lose each first packet of a connection to these ports of this machine; answers pass."""
    first = f"tcp dport {numbers} tcp flags & (syn | ack) == syn drop"
    return _rules(ports, "out", first, other=[HEAD_PORT])


def separate(ports, others, direction="both"):
    """Lose everything between two hosts, or what goes one way."""
    return _rules(ports, direction, f"{_TRAFFIC} drop", other=others)


def _rules(ports, direction, what, other=()):
    """Write one rule for each direction, for packets from and to anybody or only the other."""
    if direction not in DIRECTIONS:
        raise ValueError(f"direction {direction!r}: accepted are {', '.join(DIRECTIONS)}")
    rules = []
    if direction != "in":
        rules.append(f"{_match('iifname', ports)}{_match('oifname', other)}{what}")
    if direction != "out":
        rules.append(f"{_match('oifname', ports)}{_match('iifname', other)}{what}")
    return rules


def _match(key, ports):
    return f"{key} {{ {', '.join(ports)} }} " if ports else ""
