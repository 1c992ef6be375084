import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from jupyter_dist.cluster.doctor import doctor_scripts
from jupyter_dist.cluster.doctor.doctor_scripts import STARTER, HostScripts
from jupyter_dist.cluster.doctor.examination import examine
from jupyter_dist.cluster.spec.specification import specify
from jupyter_dist.probe.host_answers import MARKER_PREFIX

from .leftovers import wait_until
from .ports import free_port

HERE = [sys.executable, "-c", STARTER]


@pytest.fixture
def scripts(home, monkeypatch):
    monkeypatch.setenv("HOME", str(home.temp_dir))
    with HostScripts() as scripts:
        yield scripts


class Script:
    """One script without anybody who looks after it."""

    def __init__(self, silence_s=None):
        program = doctor_scripts._program("mark").split(b"\n", 1)[1]
        if silence_s is not None:
            program = program.replace(b", PROGRAMS)", b", PROGRAMS, %g)" % silence_s)
        self.process = subprocess.Popen(HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdin.write(b"%d\n%s" % (len(program), program))

    def tell(self, command):
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, **command):
        self.tell({"id": 1, **command})
        return json.loads(self.process.stdout.readline().partition(b"mark ")[2])

    def ends(self, within_s=30):
        status = self.process.wait(within_s)
        self.process.stdout.close()
        return status


@pytest.fixture
def script(home, monkeypatch):
    """Start a script that has a listener and a marker file."""
    monkeypatch.setenv("HOME", str(home.temp_dir))
    started = []

    def start(**options):
        script = Script(**options)
        started.append(script)
        script.port = script.ask(do="listen", word="word")["port"]
        script.ask(do="touch", name="x")
        assert [path.name for path in home.temp_dir.iterdir()] == [f"{MARKER_PREFIX}x"]
        with socket.create_connection(("127.0.0.1", script.port), 5) as there:
            assert there.recv(100) == b"word"
        return script

    yield start
    for script in started:
        assert not list(home.temp_dir.iterdir())
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", script.port), 5)
        with script.process:
            script.process.kill()


def test_this_machine_is_well_and_nothing_is_left(home):
    diagnosis = examine(specify("localhost:2"))
    assert diagnosis.is_good, diagnosis.findings
    assert {finding.host for finding in diagnosis.findings} == {"localhost"}
    assert diagnosis.versions["jupyter-dist"].keys() == {"", "localhost"}


def test_two_names_of_one_machine_rehearse_many_hosts(home):
    diagnosis = examine(specify("localhost:2,127.0.0.1:2", one_machine=True))
    assert diagnosis.is_good, diagnosis.findings
    assert diagnosis.of("127.0.0.1", "network")[0].brief == "loopback"


def test_ports_that_are_allowed_are_the_ones_that_are_tried(home):
    with socket.create_server(("", free_port())) as held:
        first = held.getsockname()[1]
        ports = f"{first}-{first + 4}"
        assert examine(specify("localhost:2", ports=ports)).is_good
        # Nobody may stand in the way of the next check.
        assert examine(specify("localhost:2", ports=ports)).is_good


def test_an_interpreter_that_does_not_exist_is_named(home):
    diagnosis = examine(specify("localhost:2", python="/no/such/python"))
    (finding,) = diagnosis.findings
    assert (finding.subject, finding.level) == ("ssh", "bad")
    assert "no Python at /no/such/python" in finding.what


ENDINGS = {
    "its stdin is closed": lambda one: one.process.stdin.close(),
    "it is told to": lambda one: one.tell({"do": "end"}),
    "SIGTERM": lambda one: one.process.send_signal(signal.SIGTERM),
    "SIGHUP": lambda one: one.process.send_signal(signal.SIGHUP),
    "SIGINT": lambda one: one.process.send_signal(signal.SIGINT),
}


@pytest.mark.parametrize("end", ENDINGS.values(), ids=ENDINGS)
def test_a_script_ends_and_cleans_up(script, end):
    one = script()
    end(one)
    assert one.ends() == 0


def test_a_script_ends_when_nobody_says_anything_any_more(script):
    # A cut line keeps stdin open for ever.
    assert script(silence_s=3).ends() == 0


def test_a_script_ends_in_the_middle_of_what_it_does(script):
    one = script()
    silent = [("192.0.2.1", 9, "word")]
    one.tell({"id": 2, "do": "reach", "timeout_s": 60, "targets": silent})
    one.process.stdin.close()
    assert one.ends() == 0


def test_answers_are_found_among_what_a_shell_profile_says(scripts):
    noise = 'echo noise; printf "no end of line"; echo more >&2; exec "$0" "$@"'
    scripts.start("a", ["sh", "-c", noise, *HERE])
    assert scripts.ask({"a": {"do": "hello"}}, 20)["a"].said == {}
    assert scripts.ended == {}


def test_a_module_in_the_current_directory_is_not_taken_for_a_real_one(
    scripts, tmp_path, monkeypatch
):
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong one')")
    monkeypatch.chdir(tmp_path)
    scripts.start("a", HERE)
    assert "a" in scripts.ask({"a": {"do": "hello"}}, 20)


def test_a_script_that_ends_is_told_with_its_last_words(scripts):
    scripts.start("a", ["sh", "-c", "echo oh no >&2; exit 3"])
    scripts.start("b", HERE)
    assert list(scripts.ask({name: {"do": "hello"} for name in "ab"}, 20)) == ["b"]
    ended = scripts.ended["a"]
    assert (ended.status, ended.stderr) == (3, "oh no\n")
    assert not ended.has_greeted


def test_a_script_that_does_not_answer_is_given_up_in_time(scripts, within):
    scripts.start("a", ["sleep", "60"])
    with within(2):
        assert scripts.ask({"a": {"do": "hello"}}, 0.3) == {}
    assert scripts.ended["a"].status is None


def test_what_a_host_cannot_do_comes_as_an_answer(scripts):
    scripts.start("a", HERE)
    assert "KeyError" in scripts.ask({"a": {"do": "dance"}}, 20)["a"].said["error"]


def test_every_way_to_be_reached_has_its_outcome(scripts):
    scripts.start("a", HERE)
    scripts.start("b", HERE)
    listening = scripts.ask({"b": {"do": "listen", "word": "right"}}, 20)["b"].said
    with socket.create_server(("127.0.0.1", 0)) as mute:
        targets = [
            ("127.0.0.1", listening["port"], "right"),
            ("127.0.0.1", listening["port"], "wrong"),
            ("127.0.0.1", mute.getsockname()[1], "right"),
            ("127.0.0.1", free_port(), "right"),
            ("203.0.113.255", 0, "right"),
        ]
        if "port6" in listening:
            targets.append(("::1", listening["port6"], "right"))
        reach = {"do": "reach", "timeout_s": 3, "targets": targets}
        results = scripts.ask({"a": reach}, 20)["a"].said["results"]
    outcomes = [outcome for outcome, _ in results]
    assert outcomes[:4] == ["ok", "other", "other", "refused"]
    assert outcomes[4] not in ("", "ok")
    assert outcomes[5:] in ([], ["ok"])
    assert results[0][1] == "127.0.0.1"


def test_ctrl_c_ends_every_script_at_once(home, within):
    def wait_for_a_script_that_is_mute():
        with HostScripts() as scripts:
            scripts.start("a", HERE)
            scripts.start("b", ["sleep", "60"])
            scripts.ask({"a": {"do": "hello"}}, 20)
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            scripts.ask({"b": {"do": "hello"}}, 60)

    with within(5), pytest.raises(KeyboardInterrupt):
        wait_for_a_script_that_is_mute()
    assert home.processes() == []


def test_nothing_is_left_when_the_doctor_is_killed(home):
    hold = (
        "import sys, time\n"
        "from jupyter_dist.cluster.doctor.doctor_scripts import STARTER, HostScripts\n"
        "scripts = HostScripts()\n"
        "scripts.start('a', [sys.executable, '-c', STARTER])\n"
        "scripts.ask({'a': {'do': 'hello'}}, 20)\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE) as held:
        assert held.stdout.readline() == b"ready\n"
        assert len(home.processes()) == 2
        held.kill()
    wait_until(lambda: home.processes() == [], 5, "the script has ended")


@pytest.mark.parametrize("python", [f"python3.{minor}" for minor in range(6, 11)])
def test_an_old_python_reports_and_reaches(scripts, python):
    found = shutil.which(python)
    # A version manager's stand-in for one that is not chosen is there, but does not run.
    if not found or subprocess.run([found, "-V"], capture_output=True, check=False).returncode:
        pytest.skip(f"there is no {python}")
    scripts.start("a", [python, "-c", STARTER])
    facts = scripts.ask({"a": {"do": "report"}}, 20)["a"].said
    assert f"python{facts['python']}".startswith(python)
    assert facts["interfaces"]
    port = scripts.ask({"a": {"do": "listen", "word": "right"}}, 20)["a"].said["port"]
    targets = [("127.0.0.1", port, "right")]
    said = scripts.ask({"a": {"do": "reach", "timeout_s": 5, "targets": targets}}, 20)["a"].said
    assert said["results"][0][0] == "ok"


def test_the_clock_is_read_at_the_middle_of_the_way(scripts):
    scripts.start("a", HERE)
    scripts.ask({"a": {"do": "hello"}}, 20)
    answer = scripts.ask({"a": {"do": "clock"}}, 20)["a"]
    assert answer.asked_s <= answer.said["time_s"] <= answer.heard_s <= time.time()
