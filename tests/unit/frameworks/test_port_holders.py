import os
import socket
import subprocess

from jupyter_dist.frameworks.port_holders import Holder, find_holders, name_holders


def test_who_listens_is_found_with_its_command():
    with socket.create_server(("127.0.0.1", 0)) as server:
        (holder,) = find_holders(server.getsockname()[1])
        port = server.getsockname()[1]
    assert holder.pid == os.getpid()
    assert holder.is_this_process
    assert holder.is_of_cluster
    assert str(holder).startswith(f"process {os.getpid()} (")
    assert find_holders(port) == []


def test_strangers_are_no_part_of_the_cluster():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True) as stranger:
        assert not Holder(stranger.pid, "cat").is_of_cluster
    assert not Holder(2**30, "").is_of_cluster
    assert name_holders([Holder(7, "")]) == "process 7"
    assert name_holders([]).startswith("a process ")
