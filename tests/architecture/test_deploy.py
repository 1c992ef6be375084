"""The examples in docs/deploy fit together, and call what there is."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from configparser import RawConfigParser
from pathlib import Path, PurePosixPath

import pytest
import yaml

from jupyter_dist.cli.__main__ import build_parser
from jupyter_dist.cluster.spec.host_list import parse_hosts

DEPLOY = Path(__file__).parents[2] / "docs" / "deploy"
MANIFEST = (DEPLOY / "kubernetes.yaml").read_text()
UNIT = (DEPLOY / "jupyter-dist-agent.service").read_text()
CLOUD = (DEPLOY / "cloud-init.yaml").read_text()


class StrictLoader(yaml.SafeLoader):
    """Refuses a key that stands twice in one mapping; YAML itself takes the last one."""

    def construct_mapping(self, node, deep=False):
        keys = Counter(self.construct_object(key, deep=True) for key, _ in node.value)
        twice = [key for key, count in keys.items() if count > 1]
        assert not twice, f"{twice} twice, {node.start_mark}"
        return super().construct_mapping(node, deep)


def load(text):
    return [each for each in yaml.load_all(text, StrictLoader) if each is not None]


def read_agent_options(command):
    """What our own parser makes of a command line; raises UsageError for one it does not know."""
    name, *words = command
    if name == "jupyter":
        assert words.pop(0) == "dist", command
    else:
        assert PurePosixPath(name).name == "jupyter-dist", command
    options = build_parser().parse_args(words)
    assert options.command == "agent"
    return options


def run(command, **options):
    """Run a program, whatever comes of it."""
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, **options
    )


def commented(text):
    """The lines of comments, without their marks."""
    lines = [line.strip() for line in text.splitlines()]
    return "\n".join(line.removeprefix("#").strip() for line in lines if line.startswith("#"))


# --- Kubernetes ---


@pytest.fixture(scope="module")
def job():
    return next(each for each in load(MANIFEST) if each["kind"] == "Job")


@pytest.fixture(scope="module")
def pod(job):
    return job["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def agent(pod):
    (container,) = pod["containers"]
    return container


@pytest.fixture(scope="module")
def policies():
    return [each for each in load(MANIFEST) if each["kind"] == "NetworkPolicy"]


def is_selected(labels, selector):
    """Whether a pod with these labels is meant."""
    assert set(selector) <= {"matchLabels", "matchExpressions"}
    expressions = selector.get("matchExpressions", [])
    assert all(each["operator"] == "In" for each in expressions)
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels.get(each["key"]) in each["values"] for each in expressions
    )


def test_every_document_of_the_manifest_says_what_it_is():
    documents = load(MANIFEST)
    kinds = [(each["apiVersion"], each["kind"]) for each in documents]
    policy = ("networking.k8s.io/v1", "NetworkPolicy")
    assert kinds == [("batch/v1", "Job"), policy, policy]
    names = [(each["kind"], each["metadata"]["name"]) for each in documents]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name) for _, name in names)


def test_there_are_as_many_pods_as_the_start_waits_for(job):
    asked = re.search(r"%dist_start --hosts (\S+)", commented(MANIFEST))[1]
    count = len(parse_hosts(asked))
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == count


def test_a_pod_that_fails_is_not_replaced_and_takes_no_other_down(job, pod):
    spec = job["spec"]
    assert (spec["completionMode"], spec["backoffLimitPerIndex"]) == ("Indexed", 0)
    assert {"backoffLimit", "maxFailedIndexes", "podFailurePolicy"}.isdisjoint(spec)
    assert pod["restartPolicy"] == "Never"


def test_what_pods_run_is_a_command_of_ours(agent):
    options = read_agent_options(agent["command"])
    assert options.slots == int(agent["resources"]["limits"]["nvidia.com/gpu"]) == 1


def test_what_is_mounted_are_the_volumes_that_there_are(pod, agent):
    volumes = [each["name"] for each in pod["volumes"]]
    mounts = [each["name"] for each in agent["volumeMounts"]]
    assert sorted(volumes) == sorted(mounts)
    assert len(set(volumes)) == len(volumes)
    paths = [each["mountPath"] for each in agent["volumeMounts"]]
    assert len(set(paths)) == len(paths)


def test_the_join_file_lies_where_the_agent_looks_for_it(pod, agent):
    join = PurePosixPath(read_agent_options(agent["command"]).join)
    mount = next(each for each in agent["volumeMounts"] if each["mountPath"] == str(join.parent))
    volume = next(each for each in pod["volumes"] if each["name"] == mount["name"])
    made = re.search(
        r"kubectl create secret generic (\S+)\s+\\\s+--from-file=([^=]+)=", commented(MANIFEST)
    )
    assert (volume["secret"]["secretName"], join.name) == made.groups()
    assert mount["readOnly"]
    assert volume["secret"]["defaultMode"] == 0o440, "its group may read it, nobody else"
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]


def test_an_agent_may_write_where_it_must_although_its_root_is_read_only(pod, agent):
    assert agent["securityContext"]["readOnlyRootFilesystem"]
    volumes = {each["name"]: each for each in pod["volumes"]}
    writable = {
        each["mountPath"]: volumes[each["name"]]["emptyDir"]
        for each in agent["volumeMounts"]
        if not each.get("readOnly")
    }
    home = next(each["value"] for each in agent["env"] if each["name"] == "HOME")
    assert {"/tmp", "/dev/shm", home, agent["workingDir"]} == set(writable)
    assert writable["/dev/shm"]["medium"] == "Memory"


def test_an_agent_in_a_pod_is_nobody_special(pod, agent):
    own, shared = agent["securityContext"], pod["securityContext"]
    assert shared["runAsNonRoot"]
    assert shared["runAsUser"] >= 1000
    assert shared["seccompProfile"] == {"type": "RuntimeDefault"}
    assert own["allowPrivilegeEscalation"] is False
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert pod["automountServiceAccountToken"] is False


def test_policies_let_agents_reach_the_notebook_and_each_other(job, policies):
    labels = job["spec"]["template"]["metadata"]["labels"]
    key, value = re.search(r"kubectl label pod \S+ (\S+)=(\S+)", commented(MANIFEST)).groups()
    notebook = {key: value}

    def may_reach(source, target):
        rules = [
            rule
            for policy in policies
            if is_selected(target, policy["spec"]["podSelector"])
            for rule in policy["spec"]["ingress"]
        ]
        return [
            (port["port"], port.get("endPort", port["port"]))
            for rule in rules
            for peer in rule["from"]
            if is_selected(source, peer["podSelector"])
            for port in rule["ports"]
            if port["protocol"] == "TCP"
        ]

    first, last = re.search(r"--ports (\d+)-(\d+)", commented(MANIFEST)).groups()
    assert (int(first), int(last)) in may_reach(labels, notebook)
    (free_ports,) = may_reach(labels, labels)
    assert free_ports == (32768, 60999)
    assert may_reach(notebook, labels) == [free_ports]
    assert may_reach({"app": "stranger"}, labels) == may_reach({"app": "stranger"}, notebook) == []
    for policy in policies:
        assert policy["spec"]["policyTypes"] == ["Ingress"]
        assert set(policy["spec"]) == {"podSelector", "policyTypes", "ingress"}


def contains(found, expected):
    """Whether everything that is expected has been found, in whatever else there is."""
    match expected:
        case dict():
            return all(key in found and contains(found[key], expected[key]) for key in expected)
        case list():
            return len(found) >= len(expected) and all(map(contains, found, expected))
        case int() if isinstance(found, str):  # quantities
            return str(expected) == found
        case _:
            return found == expected


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl here")
def test_kubectl_knows_every_field_of_the_job(job, tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job))
    # Reads the job into its own types, without any cluster: what it does not know gets lost.
    command = ["kubectl", "set", "env", "--local", "-o", "yaml", "-f", str(path), "TRIED=yes"]
    said = run(command, env={**os.environ, "KUBECONFIG": os.devnull, "HOME": str(tmp_path)})
    assert said.returncode == 0, said.stderr
    (understood,) = load(said.stdout)
    assert contains(understood, job)


# --- systemd ---


def read_unit(text):
    unit = RawConfigParser(delimiters=("=",), comment_prefixes=("#",), strict=False)
    unit.optionxform = str
    unit.read_string(text)
    return unit


def directives(text):
    """Its lines that are no comments; a setting may stand there several times."""
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def test_the_unit_is_started_by_hand_only():
    assert read_unit(UNIT).sections() == ["Unit", "Service"]


def test_a_setting_of_the_unit_stands_there_once_unless_it_is_a_list():
    counts = Counter(line.partition("=")[0] for line in directives(UNIT))
    assert {name for name, count in counts.items() if count > 1} == {"ExecStartPre"}


def test_what_the_unit_runs_is_a_command_of_ours():
    service = read_unit(UNIT)["Service"]
    options = read_agent_options(shlex.split(service["ExecStart"]))
    name, source = service["LoadCredential"].split(":")
    assert options.join == f"${{CREDENTIALS_DIRECTORY}}/{name}"
    assert read_unit(UNIT)["Unit"]["ConditionPathExists"] == source
    assert source in commented(UNIT), "it says where to put the file"


def test_the_unit_can_write_to_its_home_and_see_gpus():
    service = read_unit(UNIT)["Service"]
    state = f"/var/lib/{service['StateDirectory']}"
    assert service["ProtectSystem"] == "strict"
    assert service["WorkingDirectory"] == state
    assert service["Environment"] == f"HOME={state}"
    assert f"--home-dir {state}" in commented(UNIT)
    assert service["User"] in commented(UNIT).split("useradd")[1].splitlines()[0].split()
    hiding = {"PrivateDevices", "DevicePolicy", "DeviceAllow", "ProtectClock", "PrivateNetwork"}
    assert hiding.isdisjoint(service)
    assert "MemoryDenyWriteExecute" not in service


def test_the_agent_ends_its_ranks_itself_and_outlives_a_rank_that_memory_cost():
    service = read_unit(UNIT)["Service"]
    assert (service["KillMode"], service["OOMPolicy"]) == ("mixed", "continue")
    assert (service["Restart"], service["Type"]) == ("no", "exec")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path):
    service = read_unit(UNIT)["Service"]
    program = shlex.split(service["ExecStart"])[0]
    path = tmp_path / "jupyter-dist-agent.service"
    path.write_text(UNIT.replace(f"={program} ", f"={sys.executable} "))
    said = run(["systemd-analyze", "verify", "--man=no", str(path)])
    # It tells of other units of the machine as well; those are not ours.
    ours = [line for line in said.stderr.splitlines() if path.name in line]
    assert ours == []


# --- cloud-init ---


def test_cloud_init_takes_it_for_its_own():
    assert CLOUD.startswith("#cloud-config\n")
    (config,) = load(CLOUD)
    assert set(config) == {"packages", "users", "write_files", "runcmd"}


def test_the_machine_gets_the_same_unit_and_what_the_unit_needs():
    (config,) = load(CLOUD)
    files = {each["path"]: each for each in config["write_files"]}
    service = read_unit(UNIT)["Service"]
    unit = files.pop("/etc/systemd/system/jupyter-dist-agent.service")
    assert directives(unit["content"]) == directives(UNIT)
    ((path, join),) = files.items()
    assert path == service["LoadCredential"].split(":")[1]
    assert (join["permissions"], join["owner"], join["encoding"]) == ("0600", "root:root", "b64")
    user = next(each for each in config["users"] if each != "default")
    assert (user["name"], user["system"]) == (service["User"], True)
    assert user["homedir"] == service["WorkingDirectory"]


def test_commands_of_the_machine_fill_the_place_that_the_unit_names():
    (config,) = load(CLOUD)
    assert all(isinstance(word, str) for command in config["runcmd"] for word in command)
    program = Path(shlex.split(read_unit(UNIT)["Service"]["ExecStart"])[0])
    assert ["python3", "-m", "venv", str(program.parents[1])] in config["runcmd"]
    assert ["systemctl", "start", "jupyter-dist-agent"] in config["runcmd"]


def test_what_is_said_to_put_the_join_file_in_does(tmp_path):
    recipe = re.search(r'sed "(/\^#/! s\|CHANGE-ME-JOIN\|)\$\(base64.*\n', CLOUD)
    assert recipe, "the recipe is in its comments"
    said = run(["sed", f"{recipe[1]}c2VjcmV0|"], input=CLOUD).stdout
    (config,) = load(said)
    join = next(each for each in config["write_files"] if each.get("encoding") == "b64")
    assert join["content"] == "c2VjcmV0"
    assert said.count("c2VjcmV0") == 1, "and nowhere else"
