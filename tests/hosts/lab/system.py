"""The programs that the lab is made with, and whether this machine lets us use them."""

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

# The administrator's programs are not in everybody's PATH.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROGRAMS = {
    **dict.fromkeys(("ip",), "iproute2"),
    **dict.fromkeys(("unshare", "nsenter", "setpriv", "mount"), "util-linux"),
    **dict.fromkeys(("ssh", "ssh-keygen"), "openssh-client"),
    "sshd": "openssh-server",
    "nft": "nftables",
}


def run(words, text=None):
    """Run a program to its end; give its stdout, or raise RuntimeError with its stderr."""
    done = subprocess.run(
        [program(words[0]), *map(str, words[1:])],
        input=text,
        stdin=subprocess.DEVNULL if text is None else None,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,  # its message would not tell stderr
    )
    if done.returncode != 0:
        told = done.stderr.strip() or f"exit status {done.returncode}"
        raise RuntimeError(f"{' '.join(map(str, words))}: {told}" + (f"\n{text}" if text else ""))
    return done.stdout


@functools.cache
def program(name):
    """The path of a program."""
    return shutil.which(name, path=PATH) or name


def name_missing(programs):
    """Name the programs that this machine lacks, with their packages; empty: it has all."""
    missing = [name for name in programs if shutil.which(name, path=PATH) is None]
    packages = " ".join(sorted({programs[name] for name in missing}))
    told = f"missing: {', '.join(missing)} (Debian: apt-get install {packages})"
    return told if missing else ""


@functools.cache
def why_not():
    """Say why no lab can be built on this machine; empty when one can."""
    if sys.platform != "linux":
        return f"a lab needs Linux, and this is {sys.platform}"
    if os.geteuid() != 0:
        return "a lab needs root"
    if missing := name_missing(PROGRAMS):
        return missing
    # Tried where it does no harm: containers often have root but none of its powers.
    trial = "ip link add lab type bridge && nft add table bridge lab && mount -t sysfs lab /sys"
    try:
        run(["unshare", "--net", "--uts", "--ipc", "--pid", "--mount", "--fork", "sh", "-c", trial])
    except RuntimeError as error:
        return f"this machine forbids namespaces, bridges, nft rules or mounts: {error}"
    return ""


def our_paths():
    """Where our Python is, its environment, and the sources of jupyter-dist."""
    sources = Path(importlib.util.find_spec("jupyter_dist").origin).parents[1]
    return [Path(sys.prefix), Path(sys.base_prefix), sources]


def outermost(paths):
    """Those paths that lie in none of the others."""
    # A link must lead somewhere, so both ends are kept.
    paths = {Path(end(path)) for path in paths for end in (os.path.abspath, os.path.realpath)}
    return sorted(path for path in paths if not paths.intersection(path.parents))
