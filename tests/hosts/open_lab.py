"""Open the lab of hosts for a person: `python tests/hosts/open_lab.py [NAME...]`.

Gives a cluster.toml for the hosts, then takes commands such as `cut nodeA` until `quit`.
"""

import inspect
import shlex
import signal
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMES = ("nodeA", "nodeB", "nodeC")
SLOTS = 2
COMMANDS = {
    "cut": "HOST [NETWORK]: pull the plug",
    "drop": "HOST [both|in|out] [NETWORK]: lose packets without a word",
    "lose": "HOST PERCENT [NETWORK]: lose some packets",
    "delay": "HOST MS [NETWORK]: let packets travel longer",
    "block_port": "HOST PORT|FIRST-LAST [out|in]: firewall between a host and this machine",
    "no_route_back": "HOST: let it open no connection to this machine",
    "separate": "HOST OTHER: let two hosts not reach each other",
    "crash": "HOST: cut its power",
    "boot": "HOST: start it again",
    "kill_sshd": "HOST: kill its ssh server and all sessions",
    "new_host_key": "HOST: let its ssh server have a key that we do not know",
    "make_read_only_home": "HOST: let nobody write to /root and /home",
    "leftovers": "HOST: show what jupyter-dist has there",
    "heal": "HOST: undo what was done to its network, its power and its ssh server",
    "reset": ": make all hosts as new",
}


def main():
    """Build, explain, obey, remove."""
    sys.path.insert(0, str(ROOT))
    from tests.hosts.lab import HostsLab, why_not

    if reason := why_not():
        return f"No lab can be built here: {reason}."
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda *_: sys.exit(1))
    names = sys.argv[1:] or NAMES
    with tempfile.TemporaryDirectory(prefix="hosts-lab-") as folder:
        with HostsLab(names, folder) as lab:
            explain(lab, write_spec(lab))
            obey(lab)
        print("The hosts are gone.")
    return 0


def write_spec(lab):
    """Write the specification of a cluster on these hosts."""
    lines = [
        "[defaults]",
        f'ssh = "{shlex.join(lab.ssh)}"',
        f'python = "{sys.executable}"',
        'cwd = "/tmp"',
    ]
    for name in lab.names:
        lines += ["", "[[hosts]]", f'name = "{name}"', f"slots = {SLOTS}"]
    spec = lab.directory / "cluster.toml"
    spec.write_text("\n".join([*lines, ""]))
    return spec


def explain(lab, spec):
    """Say where everything is and what to try."""
    tool = Path(sys.executable).with_name("jupyter-dist")
    print(f"Up: {', '.join(f'{name} ({lab.address(name)})' for name in lab.names)}")
    print(f"This machine is {lab.head_address} to them. In another terminal:")
    print(f"  {shlex.join(lab.ssh)} {lab.names[0]}")
    print(f"  {tool} check --spec {spec}")
    print(f"  {tool} start --spec {spec}")
    print("Here, for example `cut nodeA`, `heal nodeA`, `delay nodeC 50`; `help`; `quit`.")


def obey(lab):
    """Carry out one line after the other."""
    while True:
        try:
            words = input("lab> ").split()
        except (EOFError, KeyboardInterrupt):
            print()
            return
        match words:
            case []:
                pass
            case ["quit"]:
                return
            case [name, *arguments] if name in COMMANDS:
                carry_out(getattr(lab, name), arguments)
            case _:
                print("\n".join(f"  {name} {what}" for name, what in COMMANDS.items()), "\n  quit")


def carry_out(command, arguments):
    """Call it, and say what went wrong rather than end the lab."""
    try:
        inspect.signature(command).bind(*arguments)
        found = command(*[number(word) for word in arguments])
    except KeyError as error:
        print(f"There is no {error}.")
    except (TypeError, ValueError, RuntimeError) as error:
        print(error)
    else:
        print("done" if found is None else "\n".join(found) or "nothing")


def number(word):
    """Read a word as a number if it is one."""
    try:
        return float(word) if "." in word else int(word)
    except ValueError:
        return word


if __name__ == "__main__":
    sys.exit(main())
