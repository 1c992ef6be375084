"""What ssh and the programs that it starts on a host say when they fail, and what that means.

The first row that fits counts. Rows fit whole lines in the words of the program that writes
them: what banners and shell profiles say comes before that and seldom looks alike.
"""

import msgspec


class ErrorPattern(msgspec.Struct, frozen=True):
    """One thing that can be said, as a row of a table.

    {names} in the words are groups of the pattern, or what is known about the host anyway:
    host, place (the host, or the jump host that said it), login, copy_key, ssh.
    """

    said: str
    """Pattern, with re.MULTILINE."""
    reason: str
    next_step: str


_SSH_WORDS = "Correct the ssh command of this host (--ssh), which is `{ssh}`."
_FIREWALL = "See that {place} is up, and that no firewall or missing VPN is in the way."
_CLOSED = (
    "It may have too many logins at once (MaxStartups in its sshd_config) or keep this machine "
    "out (fail2ban, hosts.deny): try `{login}` in a minute, and then look at the log of its sshd."
)
_SETTINGS = "Look at the log of sshd on {place}, or ask its administrator."
_COPY_KEY = (
    "Put your key there with `{copy_key}`, or name another user (as user@{host}). A key with a "
    "passphrase must be in an ssh agent (`ssh-add`): it cannot be typed here."
)
_TUNNEL = (
    "Allow it in the sshd_config of {host} (AllowTcpForwarding, PermitListen), or start without "
    "--tunnel if {host} can reach this machine directly."
)
_PROXY = "Look at ProxyJump and ProxyCommand in the ssh configuration, and try `{login}` by hand."
_DENIED = r"^(?P<who>.+)@(?P<at>\S+): Permission denied \((?P<methods>{})\)\.$"
_BEFORE_DENIED = r"$[\s\S]*: Permission denied \("

FROM_SSH = (
    # Its command line and configuration.
    ErrorPattern(r"^command-line:? line \d+: (?P<what>.+)$", "ssh says: {what}", _SSH_WORDS),
    ErrorPattern(
        r"^(?P<what>(?:unknown|illegal|invalid) option -- .+|option requires an argument -- .+"
        r"|Bad port '.*'|hostname contains invalid characters|Can't open user config file .+)$",
        "ssh says: {what}",
        _SSH_WORDS,
    ),
    ErrorPattern(
        r"^(?P<file>\S.*?):? line (?P<line>\d+): (?P<what>.+)$[\s\S]*^(?P=file): terminating, ",
        "line {line} of {file} is not understood by ssh: {what}",
        "Correct that line.",
    ),
    ErrorPattern(
        r"^Bad owner or permissions on (?P<file>.+)$",
        "ssh refuses {file}, because others may write to it",
        "Make it yours alone with `chmod 600 {file}`.",
    ),
    ErrorPattern(
        r"^(?P<what>(?:ControlPath too long|unix_listener: ).+)$",
        "ssh cannot share connections: {what}",
        "Correct ControlPath in the ssh configuration, or switch it off for this host with "
        "`-o ControlPath=none`.",
    ),
    # The way there.
    ErrorPattern(
        r"^ssh: Could not resolve hostname (?P<at>\S+): (?P<why>.+)$",
        "the name {at} cannot be resolved ({why})",
        "Check how it is written; ssh knows the names of DNS, of /etc/hosts and of its "
        "configuration, and `ssh -G {at}` shows what it makes of this one.",
    ),
    ErrorPattern(
        r"^ssh: connect to host (?P<at>\S+) port (?P<port>\d+): Connection refused$",
        "the connection was refused on port {port}",
        "See that sshd runs on {place} and listens on port {port}, or name the port that it has "
        "in the ssh configuration.",
    ),
    ErrorPattern(
        r"^ssh: connect to host (?P<at>\S+) port (?P<port>\d+): \S+ timed out$",
        "nothing answered in time on port {port}",
        _FIREWALL,
    ),
    ErrorPattern(
        r"^ssh: connect to host (?P<at>\S+) port (?P<port>\d+): (?P<why>.+)$",
        "no connection to port {port} could be made ({why})",
        _FIREWALL,
    ),
    ErrorPattern(
        r"^channel \d+: open failed: (?:connect failed: )?(?P<why>.+)$\s+^stdio forwarding failed$",
        "its last hop failed ({why})",
        "See that {host} is up and known under this name on the jump host, and that the sshd "
        "there forwards (AllowTcpForwarding).",
    ),
    # Whether it is the right host.
    ErrorPattern(
        r"^Offending \S+ key in (?P<file>.+):(?P<line>\d+)$[\s\S]*"
        r"^Host key for (?P<key_name>\S+) has changed",
        "its host key has changed: it is not the one on line {line} of {file}",
        "Make sure why: was {place} reinstalled, or does someone intercept connections? Only then "
        "remove the old key with `ssh-keygen -f '{file}' -R '{key_name}'`, and connect once by "
        "hand with `{login}`.",
    ),
    ErrorPattern(
        r"^\S+ host key for (?P<key_name>\S+) was revoked",
        "the host key that it shows was revoked",
        "Do not connect: ask the administrator of {place} who has that key.",
    ),
    ErrorPattern(
        r"^Host key verification failed\.$",
        "its host key is not known here",
        "Connect once by hand with `{login}`, compare the fingerprint and say yes; or let ssh "
        "take the keys of new hosts on its own (`-o StrictHostKeyChecking=accept-new`).",
    ),
    ErrorPattern(
        r"^Unable to negotiate with \S+ port \d+: (?P<why>no matching .+?)\. Their offer: "
        r"(?P<offer>.+)$",
        "its sshd and this ssh have nothing in common: {why}, it offers {offer}",
        "Renew the older of the two.",
    ),
    # Whether it lets us in.
    ErrorPattern(
        r"^(?:Received disconnect from|Disconnected from) .*: Too many authentication failures$",
        "sshd gave up after too many keys",
        "Name the right key for {place} in the ssh configuration (IdentityFile, together with "
        "IdentitiesOnly yes).",
    ),
    ErrorPattern(
        r'^Load key "(?P<file>.+)": bad permissions' + _BEFORE_DENIED,
        "ssh ignores the key {file}, because others may read it",
        "Make it yours alone with `chmod 600 {file}`.",
    ),
    ErrorPattern(
        r'^Load key "(?P<file>.+)": (?P<why>.+)' + _BEFORE_DENIED,
        "ssh cannot read the key {file} ({why})",
        "Name the right key for {place} in the ssh configuration (IdentityFile).",
    ),
    ErrorPattern(
        r"^Warning: Identity file (?P<file>.+) not accessible: (?P<why>.+?)\.?" + _BEFORE_DENIED,
        "ssh cannot read the key {file} ({why})",
        "Name the right key for {place} with -i or in the ssh configuration (IdentityFile).",
    ),
    ErrorPattern(
        r"^(?:sign_and_send_pubkey: )?signing failed .*agent refused operation" + _BEFORE_DENIED,
        "the ssh agent refused to use its key",
        "Unlock the agent or add the key again (`ssh-add`), and try `{login}` by hand.",
    ),
    ErrorPattern(
        _DENIED.format(r"\S*gssapi\S*"),
        "user {who} was not let in (the host takes {methods})",
        "Get a ticket with `kinit`, or put your key there with `{copy_key}`.",
    ),
    ErrorPattern(
        _DENIED.format(r"\S*publickey\S*"),
        "user {who} was not let in (the host takes {methods})",
        _COPY_KEY,
    ),
    ErrorPattern(
        _DENIED.format(r"\S*"),
        "user {who} was not let in without being asked something (the host takes {methods})",
        "Nobody can type an answer here: let ssh share a connection that you open by hand "
        "(ControlMaster and ControlPersist in its configuration), then try again.",
    ),
    ErrorPattern(
        r"^Your account has expired",
        "the account there has expired",
        "Ask the administrator of {place}.",
    ),
    ErrorPattern(
        r"^(?P<why>Access denied by pam_slurm_adopt\b.*?)\.?$",
        "Slurm keeps you out ({why})",
        "Name only hosts on which a job of yours runs.",
    ),
    # What becomes of the connection.
    ErrorPattern(
        r"^Error: remote port forwarding failed for listen (?P<what>.+)$",
        "its sshd refused the tunnel (listen {what})",
        _TUNNEL,
    ),
    ErrorPattern(
        r"^(?:channel \d+: open failed: (?P<why>.+)|(?:exec|shell) request failed on channel .+)$",
        "its sshd lets us in but runs no command",
        "Look at MaxSessions and ForceCommand in its sshd_config.",
    ),
    ErrorPattern(
        r"^Connection timed out during banner exchange\nConnection to UNKNOWN ",
        "nothing came in time",
        "Try each hop by hand, beginning with the jump host: `{login}`.",
    ),
    ErrorPattern(
        r"^Connection timed out during banner exchange\nConnection to \S+ port (?P<port>\d+) ",
        "what listens on port {port} does not answer as an sshd",
        "See whether {host} is overloaded, or name the port of its sshd in the ssh configuration.",
    ),
    ErrorPattern(
        r"^(?:kex|ssh)_exchange_identification: .+\n"
        r"Connection (?:closed|reset) by (?!UNKNOWN)\S+ port (?P<port>\d+)$",
        "the connection was closed on port {port} before sshd said a word",
        _CLOSED,
    ),
    ErrorPattern(
        r"^(?P<why>\S.*?)\.?\n(?:kex|ssh)_exchange_identification: .+\n"
        r"Connection (?:closed|reset) by UNKNOWN ",
        "the connection broke off ({why})",
        _PROXY,
    ),
    ErrorPattern(r"^Connection (?:closed|reset) by UNKNOWN ", "the connection broke off", _PROXY),
    ErrorPattern(
        r"^(?P<why>\S.*?)\.?\n+Connection (?:closed|reset) by \S+ port \d+$",
        "sshd closed the connection at the login; the last that was said is: {why}",
        _SETTINGS,
    ),
    ErrorPattern(
        r"^Connection (?:closed|reset) by \S+ port \d+$",
        "sshd closed the connection at the login",
        _SETTINGS,
    ),
    ErrorPattern(
        r"^(?:Timeout, server \S+ not responding\.|Connection to \S+ port \d+ timed out)$",
        "it stopped answering (cut off, or down)",
        "See that {host} is still up and can be reached.",
    ),
    ErrorPattern(
        r"^Connection to \S+ closed by remote host\.$",
        "sshd there ended the connection",
        "See whether {host} is shutting down, or whether someone ended the session there.",
    ),
    ErrorPattern(
        r"^(?:client_loop|Read from remote host|packet_write_wait|Write failed).*: (?P<why>.+)$",
        "the connection broke ({why})",
        "See that {host} is still up and can be reached.",
    ),
    ErrorPattern(
        r"^(?:Received disconnect from|Disconnected from) \S+ port \d+:\d+: (?P<why>.+)$",
        "sshd sent us away ({why})",
        _SETTINGS,
    ),
)
"""For the status with which ssh tells of its own troubles."""

FROM_HOST = (
    ErrorPattern(
        r"^jupyter-dist: this setup command failed: (?P<what>.+)$",
        "the setup command `{what}` failed",
        "Try it there by hand in a login shell (`{login}`), and correct it.",
    ),
    ErrorPattern(
        r"^jupyter-dist: there is no Python at (?P<what>.+)$",
        "there is no Python at {what}",
        "Name its interpreter or environment with --python, or a setup command that brings one.",
    ),
    ErrorPattern(
        r"^Unknown option: -P\nusage: (?P<python>.+?) \[option\]",
        "{python} is older than Python 3.11",
        "Name a newer one with --python, or a setup command that brings one.",
    ),
    ErrorPattern(
        r"^(?P<python>.+): (?:No module named jupyter_dist"
        r"|Error while finding module spec.*No module named 'jupyter_dist'\))$",
        "{python} has no jupyter-dist",
        "Install it there with --install, or name an environment that has it with --python.",
    ),
    ErrorPattern(
        r"^(?P<python>.+): (?:No module named (?P<what>jupyter_dist\.\S+)"
        r"|Error while finding module spec.*No module named '(?P<what2>jupyter_dist\..+)'\))$",
        "the jupyter-dist of {python} is another one than here",
        "Install the same there with --install, or name an environment that has it with --python.",
    ),
    ErrorPattern(
        r"^(?:ModuleNotFoundError|ImportError): (?P<why>.+)\Z",
        "the jupyter-dist there does not load: {why}",
        "Its environment is not complete: install again with --install, or name another one "
        "with --python.",
    ),
    ErrorPattern(
        r"^Password change required but no TTY available\.$",
        "the password of the account there has expired",
        "Set a new one by hand: `{login}`.",
    ),
    ErrorPattern(
        r"^(?P<what>This account is currently not available"
        r"|This service allows sftp connections only)\.$",
        "the account there runs no commands: {what}",
        "Name another user (as user@{host}), or ask the administrator of {place}.",
    ),
    ErrorPattern(
        r"^Warning: remote port forwarding failed for listen (?P<what>.+)$",
        "its sshd refused the tunnel (listen {what})",
        _TUNNEL,
    ),
)
"""For all other statuses."""
