"""Ports that frameworks open for the ranks: who tries them, by chance or not, does no harm.

A client of ZeroMQ (that of a Jupyter kernel, say) tries the port of a peer that has ended for ever,
and the kernel of the system gives that port to whoever asks for one next.
"""

import contextlib
import os
import socket

import pytest
import zmq

from .leftovers import coordinator_of, ports_of
from .results import values

GREETINGS = (
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(100),
    b"\x16\x03\x01" + bytes(200),
    b"\x00",
    b"",
)
PROGRAMS = {
    "jax": (
        "import jax\njax.device_count()",
        "jax.pmap(lambda x: jax.lax.psum(x, 'i'), axis_name='i')(jax.numpy.ones(1)).tolist()",
    ),
    "torch": (
        "import torch, torch.distributed as dist\ndist.init_process_group()",
        "x = torch.ones(1)\ndist.all_reduce(x, group=dist.new_group())\nx.tolist()",
    ),
}


@pytest.fixture(params=PROGRAMS)
def formed(request, start):
    """A cluster that has formed a framework, and a program that makes its devices meet."""
    pytest.importorskip(request.param)
    form, meet = PROGRAMS[request.param]
    cluster = start("localhost:2")
    values(cluster.run(form))
    return cluster, meet


def every_port(cluster):
    """Where any process of the cluster listens."""
    coordinator = coordinator_of(cluster)
    return ports_of(coordinator, *coordinator.children(recursive=True))


def test_who_greets_otherwise_breaks_no_framework(formed):
    cluster, meet = formed
    ports = every_port(cluster)
    with zmq.Context() as context, contextlib.ExitStack() as stack:
        for port in ports:
            for hello in (*GREETINGS, os.urandom(64)):
                visitor = stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
                with contextlib.suppress(ConnectionError):
                    visitor.sendall(hello)
            lasting = stack.enter_context(context.socket(zmq.DEALER))
            lasting.linger = 0
            lasting.connect(f"tcp://127.0.0.1:{port}")
        assert values(cluster.run(meet)) == ["[2.0]"] * 2
    assert values(cluster.run(meet)) == ["[2.0]"] * 2
