"""Delays the packets of one host: `python relay.py PORT TAP DELAY_MS`.

Stands between a port and its switch, because not every kernel can delay packets on its own. It
reads what arrives at the port and writes it DELAY_MS later to the tap, and the other way round.
Ends with its stdin.
"""

import contextlib
import fcntl
import os
import select
import socket
import struct
import sys
import time
from collections import deque

# From linux/if_tun.h and linux/if_packet.h.
_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
_SOL_PACKET, _PACKET_VNET_HDR, _PACKET_IGNORE_OUTGOING = 263, 15, 23
_ETH_P_ALL = 3
_LONGEST = 1 << 17


def open_port(name):
    """Open a port for all frames that come out of its cable."""
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    # With this header a frame keeps its pending checksum and its size of up to 64 KiB.
    port.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    port.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    port.bind((name, _ETH_P_ALL))
    port.setblocking(False)
    return port


def open_tap(name):
    """Make a tap; it is there as long as it is open."""
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    flags = _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR
    fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    return tap


def relay(port, tap, delay_s):
    """Hand over frames both ways until stdin ends."""
    stdin, others = sys.stdin.fileno(), {port: tap, tap: port}
    waiting = deque()  # in order of what is due, because all wait equally long
    while True:
        timeout_s = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        readable, _, _ = select.select([stdin, port, tap], [], [], timeout_s)
        if stdin in readable:
            return
        due_s = time.monotonic() + delay_s
        for source in readable:
            # A cable that is cut meanwhile gives errors; its frames are lost, as they should be.
            with contextlib.suppress(OSError):
                for _ in range(64):
                    waiting.append((due_s, others[source], os.read(source, _LONGEST)))
        now_s = time.monotonic()
        while waiting and waiting[0][0] <= now_s:
            _, target, frame = waiting.popleft()
            with contextlib.suppress(OSError):
                os.write(target, frame)


def main():
    """Open both ends, say so, and relay."""
    port_name, tap_name, delay_ms = sys.argv[1:]
    with open_port(port_name) as port:
        tap = open_tap(tap_name)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        relay(port.fileno(), tap, float(delay_ms) / 1000)


if __name__ == "__main__":
    main()
