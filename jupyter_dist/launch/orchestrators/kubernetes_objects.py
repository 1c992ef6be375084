"""What Kubernetes is asked to make for a cluster, and what it says of that. Pure, on plain dicts.

An indexed Job has one Pod for each agent, on a node of its own; a Secret that belongs to the Job
has their invitation.
"""

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from jupyter_dist.launch.batch.order import BatchOrder
from jupyter_dist.launch.own_agent import start_words
from jupyter_dist.launch.ssh.remote_command import python_script
from jupyter_dist.model.spec.batch import (
    JobCause,
    JobSeen,
    JobState,
    ended,
    read_resources,
)
from jupyter_dist.model.spec.cluster_spec import HostSpec

Json = dict[str, Any]
LABEL = "jupyter-dist/job"
_INDEX = "batch.kubernetes.io/job-completion-index"
_QUEUE = "kueue.x-k8s.io/queue-name"
_FOLDER, _FILE = "/var/run/jupyter-dist", "invitation"
_AGENT = "agent"
_KEPT_S = 300
"""Seconds for which an ended Job is kept if it is not deleted."""
_CAUSES = {
    "DeadlineExceeded": JobCause.TIMEOUT,
    "OOMKilled": JobCause.OUT_OF_MEMORY,
    "PreemptionByScheduler": JobCause.PREEMPTED,
    "DeletionByTaintManager": JobCause.NODE_FAIL,
    "NodeLost": JobCause.NODE_FAIL,
    "NodeShutdown": JobCause.NODE_FAIL,
    "Terminated": JobCause.NODE_FAIL,
    "Evicted": JobCause.PREEMPTED,
    "EvictionByEvictionAPI": JobCause.PREEMPTED,
}


def object_name(order: BatchOrder) -> str:
    """Return what the Job and the Secret are called: a name that DNS takes."""
    return order.job_name.lower().replace("_", "-").replace(".", "-")


def make_secret(name: str, ticket: bytes) -> Json:
    """Return the Secret with the invitation."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": {LABEL: name}},
        "data": {_FILE: base64.b64encode(ticket).decode()},
    }


def owned_by(job: Json) -> Json:
    """Return what makes an object go with the Job."""
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
    }
    return {"metadata": {"ownerReferences": [owner]}}


def make_job(order: BatchOrder, template: Json) -> Json:
    """Return the Job: the user's template with what makes it ours."""
    name = object_name(order)
    meta, given = _parts_of(template)
    labels = {**meta.get("labels", {}), LABEL: name}
    if order.spec.queue:
        labels[_QUEUE] = order.spec.queue
    spec: Json = {
        "completions": order.spec.nodes,
        "parallelism": order.spec.nodes,
        "completionMode": "Indexed",
        # The others go on when one is lost; none begins again, for nothing would wait for it.
        "backoffLimitPerIndex": 0,
        "ttlSecondsAfterFinished": _KEPT_S,
        "template": {
            "metadata": {"labels": {**given.get("metadata", {}).get("labels", {}), LABEL: name}},
            "spec": _pod_spec(order, name, given.get("spec", {})),
        },
    }
    if order.spec.time_limit_s:
        spec["activeDeadlineSeconds"] = round(order.spec.time_limit_s)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**meta, "name": name, "labels": labels},
        "spec": spec,
    }


def containers_of(template: Json) -> Sequence[Json]:
    """Return the containers of a Job, a Pod or a PodTemplate; empty: it is none of these."""
    found = _parts_of(template)[1].get("spec", {}).get("containers", [])
    return found if isinstance(found, list) else []


def _parts_of(template: Json) -> tuple[Json, Json]:
    """Return the metadata of the whole, and what has that of a Pod and its spec."""
    meta = dict(template.get("metadata", {}))
    if template.get("kind") == "Pod":
        return meta, template
    if template.get("kind") == "PodTemplate":
        return meta, template.get("template", {})
    return meta, template.get("spec", {}).get("template", {})


def _pod_spec(order: BatchOrder, name: str, given: Json) -> Json:
    first, *others = given["containers"]
    arguments = ["-P", "-m", "jupyter_dist.agent", "--join", f"{_FOLDER}/{_FILE}"]
    if order.slots:
        arguments += ["--slots", str(order.slots)]
    arguments += start_words(order.start_method)
    host = HostSpec(name="node", python=order.python or "python3", setup=order.setup)
    mount = {"name": "jupyter-dist", "mountPath": _FOLDER, "readOnly": True}
    resources = dict(first.get("resources", {}))
    if asked := read_resources(order.spec):
        resources["limits"] = {**resources.get("limits", {}), **asked}
    agent = {
        **first,
        "name": first.get("name", _AGENT),
        "command": ["sh", "-c", python_script(host, arguments)],
        "volumeMounts": [*first.get("volumeMounts", []), mount],
        "resources": resources,
    }
    agent.pop("args", None)
    secret = {"secretName": name, "defaultMode": 0o400}
    apart = {
        "labelSelector": {"matchLabels": {LABEL: name}},
        "topologyKey": "kubernetes.io/hostname",
    }
    affinity = dict(given.get("affinity", {}))
    anti = dict(affinity.get("podAntiAffinity", {}))
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    anti[required] = [*anti.get(required, []), apart]
    return {
        **given,
        "restartPolicy": "Never",
        "affinity": {**affinity, "podAntiAffinity": anti},
        "containers": [agent, *others],
        "volumes": [*given.get("volumes", []), {"name": "jupyter-dist", "secret": secret}],
    }


def judge(job: Json | None, pods: Mapping[str, Json]) -> JobSeen:
    """Return how a Job stands whose Pods are these, by name; None: it was deleted."""
    if job is None:
        return ended(JobCause.CANCELLED, "the Job was deleted")
    status = job.get("status", {})
    for condition in _true(status.get("conditions", [])):
        words = _say(condition)
        if condition["type"] == "Complete":
            return ended(JobCause.COMPLETED)
        if condition["type"] == "Failed":
            return ended(_CAUSES.get(condition.get("reason", ""), JobCause.FAILED), words)
        if condition["type"] == "Suspended":
            return JobSeen(JobState.PENDING, f"PENDING: {words}")
    if why := _why_pending(job, pods):
        return JobSeen(JobState.PENDING, f"PENDING: {why}")
    lost = {_host_of(pod): words for pod in pods.values() if (words := describe_loss(pod))}
    return JobSeen(
        JobState.RUNNING,
        "RUNNING",
        ends_at_s=_end_s(job),
        lost_nodes=tuple(lost),
        lost_words="; ".join(f"{host}: {words}" for host, words in lost.items()),
    )


def describe_loss(pod: Json) -> str:
    """Return why a Pod is lost, in the words of Kubernetes; empty: it is not."""
    status = pod.get("status", {})
    for condition in _true(status.get("conditions", [])):
        if condition["type"] == "DisruptionTarget":
            return f"its Pod is taken away, {_say(condition)}"
    if status.get("phase") == "Failed":
        return f"its Pod failed, {_say(status) or _describe_exit(status)}"
    if "deletionTimestamp" in pod["metadata"]:
        return "its Pod was deleted"
    return ""


def _describe_exit(status: Json) -> str:
    for container in status.get("containerStatuses", []):
        gone = container.get("state", {}).get("terminated")
        if gone:
            return f"{gone.get('reason', 'Error')} (exit code {gone.get('exitCode')})"
    return "no reason is given"


def _why_pending(job: Json, pods: Mapping[str, Json]) -> str:
    """Return what Pods wait for; empty: all of them have begun."""
    begun = 0
    for pod in pods.values():
        status = pod.get("status", {})
        if status.get("phase") != "Pending":
            begun += 1
            continue
        for container in status.get("containerStatuses", []):
            waiting = container.get("state", {}).get("waiting", {})
            if waiting.get("reason", "ContainerCreating") != "ContainerCreating":
                return _say(waiting)
        for condition in status.get("conditions", []):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return _say(condition)
    wanted = job["spec"]["completions"]
    return "" if begun >= wanted else f"{begun} of {wanted} Pods run"


def _true(conditions: Sequence[Json]) -> list[Json]:
    return [condition for condition in conditions if condition.get("status") == "True"]


def _say(what: Json) -> str:
    """Write a reason and a message as Kubernetes has them."""
    words = ", ".join(filter(None, (what.get("reason"), what.get("message"))))
    return " ".join(words.split())[:200].rstrip(".")


def _host_of(pod: Json) -> str:
    """Return the name that the agent of a Pod takes: that of a Pod in an indexed Job."""
    index = pod["metadata"].get("annotations", {}).get(_INDEX, "0")
    return f"{pod['metadata'].get('labels', {}).get(LABEL, 'node')}-{index}"


def _end_s(job: Json) -> float:
    limit_s, begin = job["spec"].get("activeDeadlineSeconds"), job["status"].get("startTime")
    return datetime.fromisoformat(begin).timestamp() + limit_s if limit_s and begin else 0.0
