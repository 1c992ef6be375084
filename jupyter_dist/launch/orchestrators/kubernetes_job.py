"""An indexed Job of Kubernetes whose Pods are our agents: made, watched, and deleted."""

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import kubernetes
import yaml
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from jupyter_dist.errors import StartFailed
from jupyter_dist.launch.batch.order import BatchOrder
from jupyter_dist.launch.files.plain_file import read_plain_file
from jupyter_dist.launch.orchestrators.kubernetes_objects import (
    LABEL,
    Json,
    describe_loss,
    judge,
    make_job,
    make_secret,
    object_name,
    owned_by,
)
from jupyter_dist.launch.orchestrators.talk import Report, Say
from jupyter_dist.model.spec.batch import JobCause, JobSeen, JobState, ended

_GONE = 404
_TAKEN = 409
_TIMEOUT_S = 5.0
_RETRY_S = 2.0
_LOG_LINES = 20
_IN_POD = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"


class KubernetesJob:
    """The objects of one cluster; use `run`."""

    def __init__(self, order: BatchOrder, say: Say) -> None:
        self._order = order
        self._say = say
        self._name = object_name(order)
        template = yaml.safe_load(order.spec.template)
        usual = _connect(order)
        self._namespace = template.get("metadata", {}).get("namespace") or usual
        self._body = make_job(order, template)
        self._core = kubernetes.client.CoreV1Api()
        self._jobs = kubernetes.client.BatchV1Api()
        self._events: SimpleQueue[tuple[str, Json | str]] = SimpleQueue()
        self._is_over = threading.Event()
        self._was_read: set[str] = set()

    def run(self) -> None:
        """Have the Job run until it has ended; raises StartFailed when it is not taken."""
        try:
            job = self._create()
            for kind, watch in (("job", self._watch_job), ("pod", self._watch_pods)):
                threading.Thread(target=self._watch, args=(kind, watch), daemon=True).start()
            last = self._follow(job)
        except KeyboardInterrupt:
            last = ended(JobCause.CANCELLED)
        finally:
            self._is_over.set()
            left = self._delete()
        self._say(Report(last, left=left))

    def _create(self) -> Json:
        """Make the Secret and the Job to which it belongs."""
        ticket = read_plain_file(self._order.join_path)
        space, name = self._namespace, self._name
        try:
            self._core.create_namespaced_secret(space, make_secret(name, ticket))
            job = self._jobs.create_namespaced_job(space, self._body)
            found: Json = kubernetes.client.ApiClient().sanitize_for_serialization(job)
            self._core.patch_namespaced_secret(name, space, owned_by(found))
        except (ApiException, HTTPError) as error:
            taken = isinstance(error, ApiException) and error.status == _TAKEN
            step = "See --job-name" if taken else "See what --scheduler and --template name"
            raise StartFailed(
                f"Kubernetes has not taken Job {name} in namespace {space}: {_explain(error)}. "
                f"{step}."
            ) from error
        return found

    def _follow(self, job: Json) -> JobSeen:
        """Report how the Job stands, each time that changes, until it has ended."""
        pods: dict[str, Json] = {}
        seen, latest = None, job
        while True:
            now = judge(latest or None, pods)
            if now != seen and now.state is not JobState.ENDED:
                self._say(Report(now))
            seen = now
            self._copy_logs(pods)
            if now.state is JobState.ENDED:
                return now
            kind, what = self._events.get()
            if isinstance(what, str):
                seen = JobSeen(JobState.UNKNOWN, what)
                self._say(Report(seen))
            elif kind == "job":
                latest = what
            elif kind == "pod":
                pods[what["metadata"]["name"]] = what

    def _watch(self, kind: str, watch: Callable[[Any], Any]) -> None:
        """Put what changes into the queue, until all is over."""
        while not self._is_over.is_set():
            try:
                for event in watch(kubernetes.watch.Watch()):
                    is_gone = kind == "job" and event["type"] == "DELETED"
                    self._events.put((kind, {} if is_gone else event["raw_object"]))
                    if self._is_over.is_set():
                        return
            except (ApiException, HTTPError) as error:
                self._events.put((kind, f"Kubernetes cannot be asked: {_explain(error)}"))
                self._is_over.wait(_RETRY_S)

    def _watch_job(self, watch: Any) -> Any:
        named = f"metadata.name={self._name}"
        return watch.stream(self._jobs.list_namespaced_job, self._namespace, field_selector=named)

    def _watch_pods(self, watch: Any) -> Any:
        ours = f"{LABEL}={self._name}"
        return watch.stream(self._core.list_namespaced_pod, self._namespace, label_selector=ours)

    def _copy_logs(self, pods: dict[str, Json]) -> None:
        """Write the last words of Pods that are lost into our own log, once."""
        for name in [name for name, pod in pods.items() if describe_loss(pod)]:
            if name in self._was_read:
                continue
            self._was_read.add(name)
            with suppress(ApiException, HTTPError):
                said = self._core.read_namespaced_pod_log(
                    name, self._namespace, tail_lines=_LOG_LINES, _request_timeout=_TIMEOUT_S
                )
                sys.stderr.write(f"{said}\n")
                sys.stderr.flush()

    def _delete(self) -> str:
        """Delete the Job with its Pods, and the Secret; say what may be left."""
        failed = []
        for delete in (self._jobs.delete_namespaced_job, self._core.delete_namespaced_secret):
            try:
                delete(
                    self._name,
                    self._namespace,
                    propagation_policy="Background",
                    _request_timeout=_TIMEOUT_S,
                )
            except (ApiException, HTTPError) as error:
                if not isinstance(error, ApiException) or error.status != _GONE:
                    failed.append(_explain(error))
        if not failed:
            return ""
        return (
            f"Job {self._name} of Kubernetes may still be there ({failed[0]}). Delete it with: "
            f"kubectl delete --namespace {self._namespace} job,secret {self._name}"
        )


def _connect(order: BatchOrder) -> str:
    """Read how the API is reached; return the namespace to use. Raises StartFailed."""
    context = order.spec.scheduler or None
    try:
        kubernetes.config.load_kube_config(context=context)
        contexts, active = kubernetes.config.list_kube_config_contexts()
        used = next((each for each in contexts if each["name"] == context), active)
        return str(used["context"].get("namespace", "default"))
    except (ConfigException, TypeError) as error:
        with suppress(ConfigException, OSError):
            if context is None:
                kubernetes.config.load_incluster_config()
                with open(_IN_POD, encoding="utf-8") as file:
                    return file.read().strip()
        raise StartFailed(
            f"Kubernetes cannot be reached: {error}. `kubectl config get-contexts` lists what can "
            "be named with --scheduler; KUBECONFIG names another file."
        ) from error


def _explain(error: Exception) -> str:
    """Return the API server's own words, short."""
    if isinstance(error, ApiException):
        with suppress(ValueError, TypeError, AttributeError):
            return str(yaml.safe_load(error.body)["message"])
        return f"{error.status} {error.reason}"
    return " ".join(str(error).split())[:200]
