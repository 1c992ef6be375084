"""Clusters in Pods of a recorded API server (see kubernetes_lab.py): no real Kubernetes runs here."""

import os
import sys

import pytest

from jupyter_dist.errors import UsageError
from tests.facts import assert_tells
from tests.processes.results import values

from .clusters import SUM, refusal

TEMPLATE = """
apiVersion: v1
kind: Pod
spec:
  serviceAccountName: trainer
  containers:
    - {name: main, image: "registry.example/team/jupyter-dist:1"}
"""


@pytest.fixture
def begin(kubernetes, start, tmp_path, monkeypatch):
    """Start a cluster with one rank in each of two Pods."""
    monkeypatch.setenv("KUBECONFIG", str(kubernetes.config))
    (template := tmp_path / "pod.yaml").write_text(TEMPLATE)

    def begin(**options):
        usual = {"launcher": "kubernetes", "nodes": 2, "slots": 1, "template": template}
        return start(None, **usual | {"python": sys.executable} | options)

    return begin


def test_ranks_compute_in_pods_that_are_gone_with_the_cluster(begin, kubernetes):
    cluster = begin(launcher_args=["nvidia.com/gpu=8"], queue="research")
    assert values(cluster.run(SUM)) == ["3"] * 2
    job, secret = kubernetes.objects["jobs"], kubernetes.objects["secrets"]
    assert len(job) == 1
    (owner,) = next(iter(secret.values()))["metadata"]["ownerReferences"]
    assert owner["uid"] == next(iter(job.values()))["metadata"]["uid"]
    cluster.stop()
    kubernetes.assert_empty()


@pytest.mark.slow
def test_all_that_is_asked_for_is_known_to_the_models_that_kubernetes_publishes(begin, kubernetes):
    from kubernetes.client import ApiClient

    begin(launcher_args=["nvidia.com/gpu=8"], queue="research", time_limit_s=3600).stop()
    client = ApiClient()
    kinds = {"Job": "V1Job", "Secret": "V1Secret"}
    assert {asked["kind"] for asked in kubernetes.asked} == set(kinds)
    for asked in kubernetes.asked:
        model = client._ApiClient__deserialize(asked, kinds[asked["kind"]])
        assert client.sanitize_for_serialization(model) == asked, "a field is not of the schema"


@pytest.mark.slow
def test_a_pod_that_is_evicted_is_told_in_the_words_of_kubernetes(begin, kubernetes, in_background):
    cluster = begin()
    (name,) = kubernetes.objects["jobs"]
    future = in_background(cluster.run, "while rank: pass")
    kubernetes.evict(f"{name}-1", "The node was low on resource: memory.")
    result = future.result(30)
    assert_tells(str(result[1].error), "Kubernetes job ", "Evicted", "low on resource: memory")
    assert result[0].status == "ok"


@pytest.mark.slow
def test_pods_that_fit_nowhere_are_shown_and_deleted(begin, kubernetes):
    kubernetes.is_full = True
    told = []
    said = refusal(begin, timeout_s=12, on_progress=told.append)  # its client is slow to import
    assert_tells(said, "PENDING: Unschedulable", "3 Insufficient nvidia.com/gpu")
    assert any("Unschedulable" in step.stage for step in told)


@pytest.mark.slow
def test_a_job_that_is_not_taken_leaves_nothing(begin, kubernetes):
    kubernetes.refusal = "jobs.batch is forbidden: exceeded quota"
    assert_tells(refusal(begin), "namespace team", "exceeded quota")


@pytest.mark.slow
def test_the_words_of_a_pod_without_the_package_are_told(begin, kubernetes):
    assert_tells(
        refusal(begin, python="/nowhere/python"), "no Python at /nowhere/python", "--python"
    )


def test_a_template_without_an_image_is_refused_before_anything_is_asked(begin, tmp_path):
    (bare := tmp_path / "bare.yaml").write_text("kind: Pod\nspec: {containers: [{name: a}]}\n")
    with pytest.raises(UsageError, match="no image"):
        begin(template=bare)


@pytest.mark.slow
def test_a_context_that_is_not_there_is_named(begin):
    assert_tells(refusal(begin, scheduler="moon"), "moon", "--scheduler")


pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="Pods get hostnames of their own: root")
