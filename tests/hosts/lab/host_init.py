"""The first process of a host: gives it files of its own, then keeps it up while its lab lives.

It runs as pid 1 of fresh namespaces: `python host_init.py NAME DIRECTORY PATH...`. DIRECTORY has
this host's own `etc`, `root`, `home`, `tmp` and `var/tmp`; each PATH stays to be seen, read-only.
Everything ends with its stdin: the kernel ends a namespace with its pid 1, even if the lab was
killed and could clean up nothing.
"""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

OWN_FOLDERS = ("etc", "root", "home", "var/tmp", "tmp")
STAGE = Path("/mnt")


def mount(*words):
    """Mount something in this host only."""
    subprocess.run(["mount", *map(str, words)], check=True)


def show(path):
    """Let the host see a path of this machine, also when a folder of its own will cover it."""
    covered = any(path.is_relative_to(f"/{folder}") for folder in OWN_FOLDERS)
    target = STAGE / path.relative_to("/") if covered else path
    if path.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    mount("-o", "bind,ro", path, target)


def build(directory, paths):
    """Mount everything that differs between hosts."""
    # The directory itself may lie in a folder that gets covered: reach it by another name.
    mount("--bind", directory, STAGE)
    for path in paths:
        show(path)
    for folder in OWN_FOLDERS:
        mount("--rbind", STAGE / folder, f"/{folder}")
    for folder, mode in (("/run", "755"), ("/dev/shm", "1777")):
        mount("-t", "tmpfs", "-o", f"mode={mode}", "tmpfs", folder)
    # A new sysfs shows this host's interfaces, but it has no control groups.
    mount("-t", "tmpfs", "tmpfs", STAGE)
    groups = STAGE / "cgroup"
    groups.mkdir()
    mount("--rbind", "/sys/fs/cgroup", groups)
    mount("-t", "sysfs", "sysfs", "/sys")
    mount("--rbind", groups, "/sys/fs/cgroup")
    mount("-t", "proc", "proc", "/proc")
    for _ in range(2):
        subprocess.run(["umount", "-l", STAGE], check=True)
    os.makedirs("/run/sshd", mode=0o755)


def main():
    """Build, tell the pid that the rest of the machine sees, and wait for the end."""
    name, directory, *paths = sys.argv[1:]
    pid = os.readlink("/proc/self")  # /proc is still that of the machine
    socket.sethostname(name)
    build(directory, map(Path, paths))
    # The kernel takes away the orphans of whoever ignores this signal.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print(pid, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
