import ast
import builtins
import errno
import inspect
import json
import os
import sys

import pytest

from jupyter_dist.probe import host_answers, host_report

SOURCES = [host_report, host_answers]
GPUS = (
    "0, GPU-aa, 143771, 512, NVIDIA H200\n"
    "1, GPU-bb, [N/A], [N/A], Odd, with a comma\n"
    "a line of a warning\n"
)
APPS = "GPU-aa, 4242, 400, /usr/bin/python3\nGPU-aa, 1, [N/A], [Not Found]\nGPU-gone, 2, 3, x\n"


@pytest.fixture
def programs(monkeypatch):
    """Programs that say what the test wants: words of the command -> (status, text)."""
    said = {}

    def run(command):
        line = " ".join(command)
        return next((answer for words, answer in said.items() if words in line), (127, ""))

    monkeypatch.setattr(host_report, "_run", run)
    monkeypatch.setattr(host_report.shutil, "which", lambda name: f"/bin/{name}" if said else None)
    return said


@pytest.fixture
def files(monkeypatch):
    """Files that hold what the test wants; others do not exist."""
    texts = {}

    def read(path):
        try:
            return texts[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    monkeypatch.setattr(host_report, "_read", read)
    return texts


@pytest.mark.parametrize("module", SOURCES)
def test_the_source_that_travels_is_understood_by_old_pythons(module):
    ast.parse(inspect.getsource(module), feature_version=(3, 6))


@pytest.mark.parametrize("module", SOURCES)
def test_the_source_that_travels_needs_the_standard_library_only(module):
    needed = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Import):
            needed |= {name.name.partition(".")[0] for name in node.names}
        if isinstance(node, ast.ImportFrom):
            needed.add(node.module.partition(".")[0])
    # Ours is asked for by the report, which says so when it is not there.
    assert needed - {"jupyter_dist"} <= sys.stdlib_module_names


def test_both_sources_fit_into_one_program():
    defined = []
    for module in SOURCES:
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                defined.append(node.name)
            if isinstance(node, ast.Assign | ast.AnnAssign):
                targets = getattr(node, "targets", None) or [node.target]
                defined += [target.id for target in targets]
    assert len(defined) == len(set(defined))
    assert not set(defined) & set(dir(builtins))


def test_a_report_crosses_as_json_and_knows_this_python():
    facts = json.loads(json.dumps(host_report.report()))
    assert facts["python"] == ".".join(map(str, sys.version_info[:3]))
    assert facts["executable"] == sys.executable
    assert facts["wire"].startswith("jupyter-dist/")


def test_a_part_that_fails_is_left_out_of_the_report(files):
    facts = host_report.report()
    assert "first_port" not in facts  # there is no /proc here


def test_gpus_and_their_users_are_read_from_nvidia_smi(programs, monkeypatch):
    programs["--query-gpu="] = (0, GPUS)
    programs["--query-compute-apps="] = (0, APPS)
    monkeypatch.setattr(host_report, "_owner", lambda pid: {4242: "alice"}.get(pid, ""))
    facts = host_report._gpus()
    assert facts["gpus"] == [
        {
            "index": 0,
            "uuid": "GPU-aa",
            "name": "NVIDIA H200",
            "memory_total_bytes": 143771 * 2**20,
            "memory_used_bytes": 512 * 2**20,
        },
        {
            "index": 1,
            "uuid": "GPU-bb",
            "name": "Odd, with a comma",
            "memory_total_bytes": 0,
            "memory_used_bytes": 0,
        },
    ]
    first, second, _ = facts["occupants"]
    assert first == {
        "uuid": "GPU-aa",
        "pid": 4242,
        "user": "alice",
        "name": "python3",
        "memory_bytes": 400 * 2**20,
    }
    assert (second["user"], second["memory_bytes"]) == ("", 0)


def test_a_driver_that_fails_is_quoted(programs):
    programs["--query-gpu="] = (18, "NVML:\n  version mismatch\n")
    assert host_report._gpus() == {"gpu_problem": "NVML: version mismatch"}


def test_a_host_without_nvidia_smi_has_no_gpus(programs, monkeypatch):
    monkeypatch.setattr(host_report.os.path, "exists", lambda _path: False)
    assert host_report._gpus() == {}


def test_interfaces_come_from_ip_without_links_that_are_down(programs, files):
    files["/sys/class/net/eth0/speed"] = "25000\n"
    files["/sys/class/net/lo/speed"] = "-1\n"
    programs["-j address"] = (
        0,
        json.dumps(
            [
                {
                    "ifname": "lo",
                    "flags": ["LOOPBACK", "UP"],
                    "addr_info": [{"local": "127.0.0.1", "prefixlen": 8, "scope": "host"}],
                },
                {
                    "ifname": "eth0",
                    "flags": ["UP"],
                    "addr_info": [
                        {"local": "10.0.0.1", "prefixlen": 24, "scope": "global"},
                        {"local": "fe80::1", "prefixlen": 64, "scope": "link"},
                        {},
                    ],
                },
                {
                    "ifname": "eth1",
                    "flags": [],
                    "addr_info": [{"local": "10.1.0.1", "prefixlen": 24, "scope": "global"}],
                },
            ]
        ),
    )
    found = host_report._interfaces()["interfaces"]
    assert [tuple(each.values()) for each in found] == [
        ("lo", "127.0.0.1", 8, 0),
        ("eth0", "10.0.0.1", 24, 25000),
    ]


@pytest.mark.parametrize("answer", [(1, ""), (0, "Object 'address' is unknown")])
def test_without_a_fit_ip_the_kernel_is_asked(programs, files, answer):
    programs["-j address"] = answer
    files["/proc/net/if_inet6"] = (
        "20010db8000000000000000000000001 02 40 00 80     eth0\n"
        "fe800000000000000000000000000001 02 40 20 80     eth0\n"
    )
    found = host_report._interfaces()["interfaces"]
    assert ("eth0", "2001:db8::1", 64) in [tuple(each.values())[:3] for each in found]
    assert ("lo", "127.0.0.1", 8) in [tuple(each.values())[:3] for each in found]
    assert not [each for each in found if each["address"].startswith("fe80")]


def test_ports_that_are_taken_are_counted_once_and_in_the_range_only(files):
    head = "  sl  local_address rem_address   st\n"
    files["/proc/sys/net/ipv4/ip_local_port_range"] = "32768\t60999\n"
    files["/proc/net/tcp"] = head + "   0: 0100007F:0016 0:0 0A\n   1: 0100007F:8000 0:0 0A\n"
    files["/proc/net/tcp6"] = head + "   0: 00000000:8000 0:0 0A\n   1: 00000000:8001 0:0 01\n"
    assert host_report._ports() == {"first_port": 32768, "last_port": 60999, "taken_ports": 2}


def test_of_proxies_only_the_names_are_told(monkeypatch):
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://user:secret@proxy")
    monkeypatch.setenv("no_proxy", "10.0.0.0/8")
    assert host_report._environment() == {"proxies": ["http_proxy"], "no_proxy": "10.0.0.0/8"}


def test_a_folder_that_cannot_be_written_says_why(tmp_path):
    assert host_report._why_not_writable(str(tmp_path)) == ""
    assert list(tmp_path.iterdir()) == []
    assert host_report._why_not_writable(str(tmp_path / "gone")) == os.strerror(errno.ENOENT)


def test_a_package_that_is_not_installed_has_no_version():
    assert host_report._version_of("no-such-package") == ""
    assert host_report._version_of("numpy")
