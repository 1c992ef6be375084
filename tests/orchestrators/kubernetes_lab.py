"""A small API server with the answers of Kubernetes, whose Pods are processes of this machine.

It takes what the launcher asks for (Jobs, Secrets, Pods, watches, logs), and tells of Pods in objects as
a server of version 1.34 has them. No scheduler, no kubelet and no image is behind it.
"""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from base64 import b64decode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from urllib.parse import urlparse

import yaml

from tests.processes.leftovers import wait_until

MOUNTED = "/var/run/jupyter-dist"


class KubernetesLab:
    """The server, which is up inside `with`."""

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp())
        self.objects = {"jobs": {}, "secrets": {}, "pods": {}}
        self.asked = []
        """Every object that was asked for, as it came."""
        self.refusal = ""
        """Why no Job is taken; empty: they are."""
        self.is_full = False
        """No node has room for a Pod."""
        self._changes = threading.RLock()
        """Held while objects change and watchers are told: requests and Pods have threads of their own."""
        self._watchers = []
        self._processes = {}
        self._environ = dict(os.environ)
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Bound", (_Handler,), {"lab": self})
        )
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.config = self.folder / "config"
        url = f"http://127.0.0.1:{self._server.server_port}"
        self.config.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "lab",
                    "clusters": [{"name": "lab", "cluster": {"server": url}}],
                    "users": [{"name": "me", "user": {"token": "x"}}],
                    "contexts": [
                        {
                            "name": "lab",
                            "context": {"cluster": "lab", "user": "me", "namespace": "team"},
                        }
                    ],
                }
            )
        )
        return self

    def __exit__(self, *_):
        for name in list(self._processes):
            self._end(name)
        for queue, _ in self._watchers:
            queue.put(None)
        self._server.shutdown()
        self._server.server_close()
        shutil.rmtree(self.folder)

    def assert_empty(self):
        """Fail when an object or a Pod is left soon."""
        wait_until(lambda: not any(self.objects.values()), 15, f"nothing is left: {self.objects}")
        self.asked.clear()
        self.refusal, self.is_full = "", False

    def evict(self, name, message):
        """Have a node end a Pod."""
        with self._changes:
            self._end(name)
            self._tell_pod(name, {"phase": "Failed", "reason": "Evicted", "message": message})

    # --- what requests do ---

    def create(self, kind, body):
        """Take an object; for a Job, start its Pods."""
        with self._changes:
            self.asked.append(body)
            name = body["metadata"]["name"]
            made = {
                **body,
                "metadata": {**body["metadata"], "uid": f"uid-of-{name}", "namespace": "team"},
            }
            self.objects[kind][name] = made
            if kind == "jobs":
                made["status"] = {}
                for index in range(made["spec"]["completions"]):
                    self._start_pod(made, index)
            return made

    def _start_pod(self, job, index):
        name = f"{job['metadata']['name']}-{index}"
        template = job["spec"]["template"]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-x7k2p",
                "labels": template["metadata"]["labels"],
                "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
            },
            "spec": template["spec"],
        }
        self.objects["pods"][name] = pod
        if self.is_full:
            message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu"
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            self._tell_pod(
                name, {"phase": "Pending", "conditions": [condition | {"message": message}]}
            )
            return
        mounted = self.folder / name
        mounted.mkdir(exist_ok=True)
        (volume,) = [each for each in template["spec"]["volumes"] if "secret" in each]
        for file, content in self.objects["secrets"][volume["secret"]["secretName"]][
            "data"
        ].items():
            (mounted / file).write_bytes(b64decode(content))
        shell, option, script = template["spec"]["containers"][0]["command"]
        named = 'hostname "$0"; exec "$@"'
        with (self.folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [
                    *("unshare", "--uts", "sh", "-c", named, name),
                    *(shell, option, script.replace(MOUNTED, str(mounted))),
                ],
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._tell_pod(name, {"phase": "Running"})
        threading.Thread(target=self._await_end, args=(name,), daemon=True).start()

    def _await_end(self, name):
        status = self._processes[name].wait()
        with self._changes:
            pod = self.objects["pods"].get(name)
            if pod is None or pod["status"]["phase"] != "Running":
                return
            self._tell_pod(name, {"phase": "Failed" if status else "Succeeded"})
            phases = {each["status"]["phase"] for each in self.objects["pods"].values()}
            if phases == {"Succeeded"}:
                for job in self.objects["jobs"].values():
                    job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
                    self.tell("jobs", "MODIFIED", job)

    def delete(self, kind, name):
        """Delete an object; a Job with its Pods."""
        with self._changes:
            gone = self.objects[kind].pop(name)
            self.tell(kind, "DELETED", gone)
            if kind == "jobs":
                for pod in list(self.objects["pods"]):
                    self._end(pod)
                    self.tell("pods", "DELETED", self.objects["pods"].pop(pod))
            return gone

    def _end(self, name):
        process = self._processes.pop(name, None)
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()

    def _tell_pod(self, name, status):
        with self._changes:
            self.objects["pods"][name]["status"] = status
            self.tell("pods", "MODIFIED", self.objects["pods"][name])

    # --- watches ---

    def watch(self, kind):
        """Give what there is, and all that changes."""
        with self._changes:
            queue = SimpleQueue()
            for each in self.objects[kind].values():
                queue.put({"type": "ADDED", "object": json.loads(json.dumps(each))})
            self._watchers.append((queue, kind))
            return queue

    def tell(self, kind, how, what):
        """Tell those who watch."""
        with self._changes:
            for queue, watched in self._watchers:
                if watched == kind:
                    queue.put({"type": how, "object": json.loads(json.dumps(what))})


class _Handler(BaseHTTPRequestHandler):
    lab: KubernetesLab
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        where = urlparse(self.path)
        parts = where.path.strip("/").split("/")
        if parts[-1] == "log":
            name = parts[-2].rpartition("-")[0]
            self._answer(200, (self.lab.folder / f"{name}.log").read_bytes(), "text/plain")
            return
        queue = self.lab.watch(parts[-1])
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with contextlib.suppress(OSError):
            while (event := queue.get()) is not None:
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
        self.close_connection = True

    def do_POST(self):
        kind, body = self.path.partition("?")[0].split("/")[-1], self._body()
        if kind == "jobs" and self.lab.refusal:
            self._fail(403, "Forbidden", self.lab.refusal)
        else:
            self._answer(201, json.dumps(self.lab.create(kind, body)).encode())

    def do_PATCH(self):
        kind, name = self.path.partition("?")[0].split("/")[-2:]
        found = self.lab.objects[kind][name]
        found["metadata"].update(self._body()["metadata"])
        self._answer(200, json.dumps(found).encode())

    def do_DELETE(self):
        self._body()
        kind, name = self.path.partition("?")[0].split("/")[-2:]
        if name in self.lab.objects[kind]:
            self.lab.delete(kind, name)
            self._answer(200, json.dumps({"kind": "Status", "status": "Success"}).encode())
        else:
            self._fail(404, "NotFound", f'{kind} "{name}" not found')

    def _body(self):
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")

    def _fail(self, code, reason, message):
        status = {"kind": "Status", "status": "Failure", "reason": reason, "message": message}
        self._answer(code, json.dumps({**status, "code": code}).encode())

    def _answer(self, code, body, kind="application/json"):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
