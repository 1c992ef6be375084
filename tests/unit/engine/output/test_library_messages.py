"""Lines of C and C++ libraries, as they were seen, and lines that only look like them."""

import pytest

from jupyter_dist.engine.output.library_messages import drop_chatter, may_become_chatter

GLOO = "[Gloo] Rank 0 is connected to 3 peer ranks. Expected number of connected peer ranks is : 3"
POLLED = (
    "E1121 20:33:34.612399   10060 coordination_service_agent.cc:289] Polled an error from "
    "coordination service (this can be an error from this or another task)."
)
UNHEALTHY = (
    "E1121 20:33:34.611735   10049 coordination_service.cc:1549] [2415977606743970895] Use error "
    "polling to propagate the following error to all tasks: UNAVAILABLE: The following tasks are "
    "unhealthy (stopped sending heartbeats):\n"
    "1\n"
    "The tasks have crashed. Check the task logs for an earlier error, or scheduler events "
    "(e.g. preemption, eviction) to debug further. "
    "[type.googleapis.com/tensorflow.CoordinationServiceError='']"
)
OF_OLDER_JAX = UNHEALTHY.replace("\n1\n", "\n/job:jax_worker/replica:0/task:1\n")
FAILED_CALL = (
    "E0000 00:00:1732221234.123456   12345 coordination_service_agent.cc:700] UNAVAILABLE: "
    "failed to connect\n"
    "\n"
    "RPC: /xla.coordination.CoordinationService/Heartbeat"
)
FATAL = (
    "F1121 20:33:34.612569   10060 client.h:80] Terminating process because the JAX distributed "
    "service detected fatal errors. This most likely indicates that another task died\n"
    "\n"
    "RPC: /xla.coordination.CoordinationService/PollForError\n"
    "*** Check failure stack trace: ***\n"
    "    @     0x7fd773220634  absl::lts_20260107::log_internal::LogMessage::SendToLog()"
)
CHATTER = [
    GLOO,
    POLLED,
    UNHEALTHY,
    OF_OLDER_JAX,
    FAILED_CALL,
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    (
        "W1121 20:33:35.694167   10315 coordination_service.cc:185] [513012057204709742] Using "
        "experimental recoverable task feature."
    ),
    "I1121 20:33:35.694167   10315 grpc_coordination_client.cc:71] x",
    "W1121 20:33:54.721654   10506 preemption_notifier.cc:90] SIGTERM caught at 2026-11-21T20:33",
    "I0000 00:00:1732221234.123456   12345 preemption_sync_manager.cc:50] y",
    "I1121 20:33:35.694167   10315 client.cc:163] Connected to distributed JAX controller",
    "I1121 20:33:35.694167   10315 service.cc:105] Jax service listening on 127.0.0.1:1",
    (
        "[W1121 20:30:26.216282789 socket.cpp:759] [c10d] The client socket cannot be initialized to "
        "connect to [localhost]:29500 (errno: 97 - Address family not supported by protocol)."
    ),
    (
        "[rank1]:[W1121 20:30:26.216282789 socket.cpp:759] [c10d] The hostname of the client socket "
        "cannot be retrieved. err=-3"
    ),
    (
        "[W1121 20:30:26.2 socket.cpp:700] [c10d] The IPv6 network addresses of (a, 1) cannot be "
        "retrieved (gai error: -2 - Name or service not known)."
    ),
    (
        "[W1121 20:30:26.2 socket.cpp:460] [c10d] The server socket cannot be initialized on [::]:1 "
        "(errno: 97 - Address family not supported by protocol)."
    ),
]
WORDS_OF_OTHERS = [
    f"> {GLOO}",
    f"'{GLOO}'",
    f"{GLOO} ranks",
    GLOO.replace("Rank 0", "Rank zero"),
    "[Gloo] Rank 0 is connected",
    "[Gloo] Rank 0 is connected to 3 peer ranks.",
    "the file coordination_service.cc:12] is long",
    "E1121 20:33:34.612399   10060 my_service.cc:289] Polled an error from coordination service",
    "E1121 20:33:34.612399   10060 client.cc:289] the user's own client",
    "E1121 coordination_service.cc:1] no clock",
    "X1121 20:33:34.612399   10060 coordination_service.cc:1549] no such severity",
    "WARNING: All log messages before absl::InitializeLog() are mine",
    (
        "[W1121 20:30:26.216282789 socket.cpp:759] [c10d] The client socket has failed to connect to "
        "[a]:1 (errno: 111 - Connection refused)."
    ),
    "[rank1]:[W1121 20:30:26.216282789 ProcessGroupNCCL.cpp:4718] using GPU 0",
    "1",
    "RPC: /xla.coordination.CoordinationService/PollForError",
    "The tasks have crashed. Check the task logs",
    FATAL,
    FATAL.replace("client.h:80", "coordination_service_agent.cc:80"),
    'Traceback (most recent call last):\n  File "service.cc:1] coordination service"',
]


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
@pytest.mark.parametrize("line", CHATTER)
def test_chatter_is_left_out_and_its_neighbours_stay(line, end):
    assert drop_chatter(f"{line}{end}") == ""
    assert drop_chatter(f"before\n{line}\nafter\n") == "before\nafter\n"
    assert drop_chatter(f"10%\r{line}\n20%\r") == "10%\r20%\r"
    assert drop_chatter(f"{line}\n{line}\n\n2\n{line}{end}") == "\n2\n"


@pytest.mark.parametrize("line", WORDS_OF_OTHERS)
def test_what_only_resembles_chatter_stays(line):
    for text in (line, f"{line}\n", f"before\n{line}\nafter"):
        assert drop_chatter(text) == text


def test_what_is_said_of_a_crash_stays_between_chatter():
    assert drop_chatter(f"{UNHEALTHY}\n{POLLED}\n{FATAL}\n") == f"{FATAL}\n"


def test_numbers_of_a_user_after_chatter_stay():
    text = "1\n\n2\n"
    assert drop_chatter(f"{POLLED}\n{text}") == text
    assert drop_chatter(f"{UNHEALTHY}\n{text}") == text


@pytest.mark.parametrize("line", CHATTER)
def test_a_half_line_of_chatter_is_known_by_its_beginning(line):
    assert may_become_chatter(line[:40])


@pytest.mark.parametrize("half", ["", "I", "[", "50%", "[rank", "Epoch 1:", "[W", "WARNING: x"])
def test_other_half_lines_are_not_held_back(half):
    assert not may_become_chatter(half)
