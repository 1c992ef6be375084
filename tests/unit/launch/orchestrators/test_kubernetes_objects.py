import base64

import pytest

from jupyter_dist.launch.batch.order import BatchOrder
from jupyter_dist.launch.orchestrators.kubernetes_objects import (
    LABEL,
    containers_of,
    describe_loss,
    judge,
    make_job,
    make_secret,
    object_name,
)
from jupyter_dist.model.spec.batch import BatchSpec, JobCause, JobState

POD = {"kind": "Pod", "spec": {"containers": [{"name": "main", "image": "x", "args": ["sleep"]}]}}


@pytest.fixture
def order(tmp_path):
    def make(**fields):
        spec = BatchSpec(system="kubernetes", nodes=2, **fields)
        return BatchOrder(
            cluster="My_one", spec=spec, join_path=tmp_path, directory=tmp_path, log_dir=tmp_path
        )

    return make


def pod(index=0, **status):
    return {
        "metadata": {
            "name": f"demo-{index}-abcde",
            "labels": {LABEL: "demo"},
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
        },
        "status": status,
    }


def job(*conditions, **spec):
    return {
        "spec": {"completions": 2, **spec},
        "status": {"conditions": [{"status": "True", **each} for each in conditions]},
    }


RUNNING = {"a": pod(0, phase="Running"), "b": pod(1, phase="Running")}


def test_names_are_those_that_dns_takes(order):
    assert object_name(order()) == "jupyter-dist-my-one"


def test_the_invitation_is_in_the_secret_only(order):
    secret = make_secret("demo", b"ticket")
    assert [base64.b64decode(each) for each in secret["data"].values()] == [b"ticket"]
    made = make_job(order(), POD)
    (volume,) = made["spec"]["template"]["spec"]["volumes"]
    assert volume["secret"] == {"secretName": "jupyter-dist-my-one", "defaultMode": 0o400}


def test_pods_stand_apart_and_one_that_fails_takes_no_other_along(order):
    spec = make_job(order(), POD)["spec"]
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (2, 2, "Indexed")
    assert spec["backoffLimitPerIndex"] == 0
    affinity = spec["template"]["spec"]["affinity"]["podAntiAffinity"]
    (rule,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["labelSelector"]["matchLabels"] == spec["template"]["metadata"]["labels"]


def test_what_the_template_says_besides_stays(order):
    template = {
        "kind": "Job",
        "metadata": {"namespace": "team", "labels": {"a": "b"}},
        "spec": {
            "template": {
                "metadata": {"labels": {"c": "d"}},
                "spec": {
                    "nodeSelector": {"gpu": "h100"},
                    "volumes": [{"name": "data"}],
                    "containers": [
                        {
                            "image": "x",
                            "volumeMounts": [{"name": "data"}],
                            "resources": {"limits": {"cpu": 4}},
                        },
                        {"name": "log", "image": "y"},
                    ],
                },
            }
        },
    }
    made = make_job(
        order(arguments=("nvidia.com/gpu=8",), queue="research", time_limit_s=60.0), template
    )
    assert made["metadata"]["namespace"] == "team"
    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "research"
    assert made["spec"]["activeDeadlineSeconds"] == 60
    spec = made["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"gpu": "h100"}
    agent, other = spec["containers"]
    assert agent["resources"]["limits"] == {"cpu": 4, "nvidia.com/gpu": "8"}
    assert [mount["name"] for mount in agent["volumeMounts"]] == ["data", "jupyter-dist"]
    assert other == {"name": "log", "image": "y"}
    assert "args" not in make_job(order(), POD)["spec"]["template"]["spec"]["containers"][0]


@pytest.mark.parametrize("template", [{}, {"kind": "Service", "spec": {}}, {"kind": "Pod"}])
def test_what_is_no_manifest_of_pods_has_no_containers(template):
    assert list(containers_of(template)) == []


@pytest.mark.parametrize(
    ("job", "pods", "state", "words"),
    [
        (job(), {}, JobState.PENDING, "PENDING: 0 of 2 Pods run"),
        (job({"type": "Suspended", "reason": "JobSuspended"}), {}, JobState.PENDING, "Suspended"),
        (job(), RUNNING, JobState.RUNNING, "RUNNING"),
        (
            job(),
            {
                "a": pod(
                    phase="Pending",
                    containerStatuses=[
                        {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such"}}}
                    ],
                )
            },
            JobState.PENDING,
            "ErrImagePull, no such",
        ),
        (None, RUNNING, JobState.ENDED, "deleted"),
        (
            job({"type": "Failed", "reason": "DeadlineExceeded"}),
            RUNNING,
            JobState.ENDED,
            "DeadlineExceeded",
        ),
    ],
)
def test_how_a_job_stands_is_told_in_the_words_of_kubernetes(job, pods, state, words):
    seen = judge(job, pods)
    assert seen.state is state
    assert words in seen.words


def test_why_a_job_has_ended_has_a_cause():
    deadline = job({"type": "Failed", "reason": "DeadlineExceeded"})
    assert judge(deadline, {}).cause is JobCause.TIMEOUT
    assert judge(job({"type": "Complete"}), {}).cause is JobCause.COMPLETED
    assert judge(None, {}).cause is JobCause.CANCELLED


def test_a_time_limit_has_an_end():
    limited = job(activeDeadlineSeconds=60)
    limited["status"]["startTime"] = "1970-01-01T00:01:40Z"
    assert judge(limited, RUNNING).ends_at_s == 160.0


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        (pod(1, phase="Failed", reason="Evicted", message="low on memory"), "Evicted, low on"),
        (
            pod(
                1,
                phase="Failed",
                containerStatuses=[
                    {"state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}
                ],
            ),
            "OOMKilled (exit code 137)",
        ),
        (
            pod(
                1,
                phase="Running",
                conditions=[
                    {
                        "type": "DisruptionTarget",
                        "status": "True",
                        "reason": "PreemptionByScheduler",
                    }
                ],
            ),
            "PreemptionByScheduler",
        ),
        (
            pod(1, phase="Running")
            | {"metadata": {**pod(1)["metadata"], "deletionTimestamp": "x"}},
            "deleted",
        ),
    ],
)
def test_a_pod_that_is_lost_is_one_host_less(lost, words):
    assert words in describe_loss(lost)
    seen = judge(job(), {**RUNNING, "b": lost})
    assert seen.state is JobState.RUNNING
    assert seen.lost_nodes == ("demo-1",)
    assert words in seen.lost_words
