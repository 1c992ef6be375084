"""The files that make a host: its own /etc, its users' homes, its keys."""

import functools
import os
import re
import shutil
from pathlib import Path

from .system import run

USER, USER_ID = "alice", 2001
HOST_KEY = Path("/etc/ssh/ssh_host_ed25519_key")
SSHD_CONFIG = f"""\
HostKey {HOST_KEY}
PidFile /run/sshd.pid
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
MaxStartups 200:30:400
MaxSessions 200
Subsystem sftp internal-sftp
"""
SSH_CONFIG = """\
Host *
  IdentityFile "{directory}/id_ed25519"
  IdentitiesOnly yes
  UserKnownHostsFile "{directory}/known_hosts"
  GlobalKnownHostsFile /dev/null
  LogLevel INFO
"""


def write_etc(etc: Path, name: str, addresses: dict[str, str]) -> None:
    """Copy this machine's /etc and change what differs; it knows the others by these addresses."""
    run(["cp", "-a", "/etc", etc])
    for own in ("ssh", "hosts", "hostname", "resolv.conf"):
        remove(etc / own)
    (etc / "ssh").mkdir()
    (etc / "ssh/sshd_config").write_text(SSHD_CONFIG + _penalties())
    make_key(etc / HOST_KEY.relative_to("/etc"))
    names = {"localhost": "127.0.0.1", **addresses}
    (etc / "hosts").write_text("".join(f"{names[name]} {name}\n" for name in names))
    (etc / "hostname").write_text(f"{name}\n")
    (etc / "resolv.conf").touch()  # without a name server a name is known at once or never
    _write_accounts(etc)


def _write_accounts(etc):
    """Give root the shell bash, and add a user."""
    lines = {
        "passwd": f"{USER}:x:{USER_ID}:{USER_ID}::/home/{USER}:/bin/bash",
        "shadow": f"{USER}:*:19000:0:99999:7:::",
        "group": f"{USER}:x:{USER_ID}:",
    }
    for file, line in lines.items():
        path = etc / file
        old = [old for old in path.read_text().splitlines() if not old.startswith(f"{USER}:")]
        path.write_text("\n".join([*old, line, ""]))
    passwd = etc / "passwd"
    passwd.write_text(re.sub(r"(?m)^(root:.*):.*$", r"\1:/bin/bash", passwd.read_text()))


def write_homes(root: Path, public_key: Path, keep: set[Path]) -> None:
    """Make homes and temporary folders new, but leave the way to the paths in `keep`."""
    # Others may pass through root's home, because the interpreter may lie in there.
    for folder, mode, user_id in (
        ("root", 0o711, 0),
        ("home", 0o755, 0),
        (f"home/{USER}", 0o700, USER_ID),
        ("tmp", 0o1777, 0),
        ("var", 0o755, 0),
        ("var/tmp", 0o1777, 0),
    ):
        path = root / folder
        path.mkdir(exist_ok=True)
        path.chmod(mode)
        os.chown(path, user_id, user_id)
    for folder in ("root", f"home/{USER}", "tmp", "var/tmp"):
        for path in (root / folder).iterdir():
            if not any(kept.is_relative_to(path) for kept in keep):
                remove(path)
    for folder, user_id in (("root", 0), (f"home/{USER}", USER_ID)):
        keys = root / folder / ".ssh/authorized_keys"
        keys.parent.mkdir(mode=0o700)
        shutil.copy(public_key, keys)
        keys.chmod(0o600)
        for path in (keys, keys.parent):
            os.chown(path, user_id, user_id)


def write_ssh_files(
    directory: Path, addresses: dict[str, tuple[str, ...]], keys: dict[str, Path]
) -> None:
    """Write what our ssh client needs: where the hosts are, and their keys as of now."""
    config, known = [], []
    for name, places in addresses.items():
        config.append(f"Host {name}\n  HostName {places[0]}\n")
        public = keys[name].with_name(f"{keys[name].name}.pub").read_text()
        known.append(f"{','.join([name, *filter(None, places)])} {public}")
    (directory / "ssh_config").write_text("".join(config) + SSH_CONFIG.format(directory=directory))
    (directory / "known_hosts").write_text("".join(known))


def make_key(path: Path) -> None:
    """Make a new key pair, in place of an old one."""
    for old in (path, path.with_name(f"{path.name}.pub")):
        old.unlink(missing_ok=True)
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", path])


def remove(path: Path) -> None:
    """Remove a file, a link or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@functools.cache
def _penalties():
    """Newer servers lock out an address that failed often; tests fail often."""
    version = run(["sh", "-c", "ssh -V 2>&1"])
    match = re.match(r"OpenSSH_(\d+)\.(\d+)", version)
    if match and (int(match[1]), int(match[2])) >= (9, 8):
        return "PerSourcePenalties no\n"
    return ""
