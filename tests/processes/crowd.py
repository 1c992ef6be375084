"""Strangers who hold on: `crowd.py NUMBER PORT...` connects to ports of this machine, and again.

It keeps as many connections to each port, says nothing on them, and makes a new one for each that
is ended. It writes a line when it has made as many as it keeps, and ends with its input.
"""

import resource
import selectors
import socket
import sys


def main():
    number, *ports = map(int, sys.argv[1:])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    made = 0
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin, selectors.EVENT_READ)
        missing = [port for port in ports for _ in range(number)]
        while True:
            for port in missing[:100]:
                selector.register(connect(port), selectors.EVENT_READ, port)
                made += 1
                if made == number * len(ports):
                    print("here we are", flush=True)
            del missing[:100]
            for key, _ in selector.select(0 if missing else None):
                if key.data is None:
                    return
                if is_over(key.fileobj):
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
                    missing.append(key.data)


def connect(port):
    """Begin to connect; whether that succeeds is seen later."""
    made = socket.socket()
    made.setblocking(False)
    made.connect_ex(("127.0.0.1", port))
    return made


def is_over(connection):
    """Tell whether the other side has ended it; libzmq says something first."""
    try:
        return not connection.recv(4096)
    except BlockingIOError:
        return False
    except OSError:
        return True


if __name__ == "__main__":
    main()
