"""NCCL's RAS as its client sees it, on one end of a pair of sockets."""

import contextlib
import json
import socket
import threading


class FakeRas:
    """The processes behind one RAS port; `connect` stands for socket.create_connection.

    Like NCCL's, they answer commands line by line in any case of letters, and close after STATUS.
    """

    def __init__(self, report):
        self.report = report
        """What it says in JSON; None: it is too old for that."""
        self.silent = 0
        """So many connections are taken by a process that is stopped."""
        self.hello = "SERVER PROTOCOL 2\n"
        self.heard = []
        """Every command, of all connections."""
        self.places = []
        self._ends = []
        self._threads = []

    def connect(self, place, timeout_s):
        self.places.append(place)
        ours, theirs = socket.socketpair()
        self._ends.append(ours)
        if len(self.places) > self.silent:
            thread = threading.Thread(target=self._serve, args=(ours,), daemon=True)
            self._threads.append(thread)
            thread.start()
        return theirs

    def close(self):
        for end in self._ends:
            end.close()
        for thread in self._threads:
            thread.join(5)

    def _serve(self, end):
        with contextlib.suppress(OSError):  # who asked has gone
            self._answer(end)

    def _answer(self, end):
        with end, end.makefile("rb") as lines:
            for line in lines:
                command = line.decode().strip().upper()
                self.heard.append(command)
                if command.startswith("CLIENT PROTOCOL "):
                    answer = self.hello
                elif command == "VERBOSE STATUS":
                    self._send(end, json.dumps(self.report, indent=2))
                    return
                elif command == "TIMEOUT 1" or (command == "SET FORMAT JSON" and self.report):
                    answer = "OK\n"
                else:
                    answer = f"ERROR: Unknown command {line.decode().strip()}\n"
                self._send(end, answer)

    @staticmethod
    def _send(end, text):
        end.sendall(text.encode())


def rank(number, *, host="10.0.0.1", pid=None, init_state=0, async_error=0, **counts):
    """One rank in JSON, as NCCL 2.29 writes it; `ended` is finalize, destroy or abort."""
    ended = counts.pop("ended", "")
    return {
        "rank": number,
        "host": host,
        "pid": 100 + number if pid is None else pid,
        "cuda_dev": number,
        "nvml_dev": number,
        "status": {
            "init_state": init_state,
            "async_error": async_error,
            "finalize_called": ended == "finalize",
            "destroy_flag": ended in ("destroy", "abort"),
            "abort_flag": ended == "abort",
        },
        "collective_counts": {
            **dict.fromkeys(("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"), 0),
            **counts,
        },
    }


def missing(number, *, host="10.0.0.1", pid=None, unresponsive=True, dead=False):
    """One rank that has told nothing."""
    return {
        "rank": number,
        "host": host,
        "pid": 100 + number if pid is None else pid,
        "cuda_dev": number,
        "nvml_dev": number,
        "status": {"unresponsive": unresponsive, "considered_dead": dead},
    }


def communicator(ranks, missing_ranks=(), key="0xae94"):
    """One communicator of these."""
    return {
        "hash": key,
        "secondary_hash": "0xb7e7:0xb824",
        "size": len(ranks) + len(missing_ranks),
        "ranks_count": len(ranks),
        "missing_ranks_count": len(missing_ranks),
        "ranks": list(ranks),
        "missing_ranks": list(missing_ranks),
    }


def report(*communicators):
    """Put a whole answer together."""
    return {
        "nccl_version": "2.29.1",
        "cuda_runtime_version": 13000,
        "cuda_driver_version": 13000,
        "timestamp": "2025-12-19 13:06:53",
        "communicators_count": len(communicators),
        "communicators": list(communicators),
        "ras": {"collection_time_sec": 0.0, "timeouts_count": 0},
    }
