import pytest
from fakes.seen_hosts import (
    GIB,
    HEALTHY,
    assert_finds,
    attempts_of,
    briefs,
    observe,
    the_only,
    troubles,
)
from msgspec.structs import replace

from jupyter_dist.cluster.doctor.diagnosis import (
    LEVELS,
    NOTEBOOK,
    SUBJECTS,
    ClockReading,
    Finding,
    Gpu,
    HostFacts,
    Occupant,
    Unreached,
)
from jupyter_dist.cluster.doctor.findings import (
    CLOCK_BAD_S,
    CLOCK_WARNING_S,
    FEWEST_FILES,
    LEAST_FREE_BYTES,
    LEAST_LOCKED_BYTES,
    NO_SPACE_BYTES,
    diagnose,
)
from jupyter_dist.model.spec.cluster_spec import HostSpec

LIMITS = HEALTHY.limits


def test_healthy_hosts_have_nothing_but_good_findings():
    diagnosis = diagnose(observe())
    assert {finding.level for finding in diagnosis.findings} == {"good"}
    assert {finding.subject for finding in diagnosis.findings} <= set(SUBJECTS)
    assert diagnosis.hosts == ("a", "b", "c")
    assert diagnosis.is_good


def test_every_trouble_is_a_sentence_with_a_next_step():
    observation = observe(
        a={"python": "3.9.1", "wire": "", "import_problem": "ImportError: x", "proxies": ("p",)},
        b={"home_problem": "full", "temp_free_bytes": 5, "limits": {"nofile": (1, 2)}},
        outcomes={"a_home": "silent", "b_c": "refused"},
        clocks={"c": ClockReading(-9.0, 0.0)},
        unreached={"d": Unreached("it is off", "Switch it on.")},
    )
    found = [each for each in diagnose(observation).findings if each.level != "good"]
    assert len(found) > 7
    for finding in found:
        assert finding.subject in SUBJECTS
        assert finding.level in LEVELS
        assert finding.what
        assert not finding.what.endswith(".")
        assert finding.next_step[0].isupper()
        assert finding.next_step.endswith(".")


def test_the_worst_finding_of_a_cell_comes_first():
    observation = observe(a={"temp_free_bytes": LEAST_FREE_BYTES - 1, "memory_free_bytes": 0})
    assert [each.level for each in diagnose(observation).of("a", "disk")] == ["bad", "warning"]


def test_a_host_that_ssh_does_not_reach_is_told_in_the_words_of_ssh_and_nothing_else():
    observation = observe()
    del observation.facts["b"]
    unreached = {"b": Unreached("refused", "Start it.")}
    found = the_only(replace(observation, unreached=unreached))
    assert found == Finding("b", "ssh", "bad", "refused", "Start it.")


def test_a_host_that_joins_by_itself_is_told_not_to_be_examined():
    hosts = (HostSpec("a", 2, launcher="ssh"), HostSpec("join-1", launcher="join"))
    observation = observe("a", hosts=hosts)
    assert_finds(observation, "join-1", "ssh", "warning", "")
    assert briefs(observation, "ssh")["join-1"] == "joins"
    assert not diagnose(observation).of("join-1", "python")


def test_two_names_of_one_machine_are_told_unless_it_is_a_rehearsal():
    observation = observe(a={"machine": "one"}, c={"machine": "one"})
    found = [(host, level, what[-2:]) for host, level, what in troubles(observation, "machine")]
    assert found == [("a", "bad", " c"), ("c", "bad", " a")]
    assert not troubles(replace(observation, is_rehearsal=True), "machine")


@pytest.mark.parametrize(
    ("offset_s", "uncertainty_s", "level"),
    [
        (0.5, 0.05, None),
        (3.0, 2.5, None),  # it is the connection that is slow
        (-CLOCK_WARNING_S - 0.1, 0.05, "warning"),
        (CLOCK_BAD_S - 1, 0.05, "warning"),
        (3600.0, 0.05, "bad"),
        (-86400.0, 0.05, "bad"),
    ],
)
def test_a_clock_is_judged_by_its_distance(offset_s, uncertainty_s, level):
    found = troubles(observe(clocks={"a": ClockReading(offset_s, uncertainty_s)}))
    assert [each[:2] for each in found] == ([("a", level)] if level else [])
    assert all((" ahead " in each[2]) == (offset_s > 0) for each in found)


CARDS = tuple(Gpu(index=index, uuid=f"u{index}", name="NVIDIA H200") for index in range(2))


LOCKED = LIMITS | {"memlock": (8 * 2**20, LEAST_LOCKED_BYTES)}


@pytest.mark.parametrize(
    ("facts", "subject", "what", "step"),
    [
        ({"taken_ports": 28100}, "ports", ("132", "32768-60999"), "ss -tan"),
        ({"gpu_problem": "mismatch"}, "gpus", "mismatch", "nvidia-smi"),
        ({"home_problem": "read-only"}, "home", "/root (read-only)", "HOME"),
        *(
            ({"limits": LIMITS | {"nofile": limits}}, "limits", f" {limits[0]} ", step)
            for limits, step in (
                ((FEWEST_FILES - 1, -1), "ulimit -n unlimited"),
                ((1024, 1048576), "ulimit -n 1048576"),
                ((1024, 1024), "limits.conf"),
            )
        ),
        # In KiB.
        ({"limits": LOCKED, "rdma": ("mlx5",)}, "limits", (" 8 MiB ", " mlx5"), "-l 1048576"),
    ],
)
def test_what_a_host_reports_of_itself_is_a_warning(facts, subject, what, step):
    assert_finds(observe(a=facts), "a", subject, "warning", what, step)


def test_gpus_are_counted_by_name():
    cards = {name: {"gpus": CARDS} for name in "abc"}
    assert briefs(observe(**cards), "gpus") == dict.fromkeys("abc", "2 H200")


def test_occupied_gpus_name_the_processes():
    users = (
        Occupant(uuid="u1", pid=77, name="python", user="alice", memory_bytes=40 * GIB),
        Occupant(uuid="u1", pid=78, memory_bytes=512 * 2**20),
    )
    cards = {name: {"gpus": CARDS} for name in "bc"}
    observation = observe(a={"gpus": CARDS, "occupants": users}, **cards)
    what = "GPU 1 by python (pid 77, alice, 40 GiB), a process (pid 78, 512 MiB)"
    assert_finds(observation, "a", "gpus", "warning", what)
    free = tuple(HostSpec(name, 1, devices=(0,)) for name in "abc")
    assert not troubles(replace(observation, hosts=free))


def test_a_host_without_gpus_among_others_that_have_them_is_a_warning():
    ((host, level, what),) = troubles(observe(a={"gpus": CARDS}, b={"gpus": CARDS}))
    assert (host, level) == ("c", "warning")
    assert " a, b " in what


def test_more_ranks_than_gpus_and_devices_that_do_not_exist_are_told():
    hosts = (HostSpec("a", 4), HostSpec("b", 2, devices=(1, 2)))
    cards = {name: {"gpus": CARDS} for name in "ab"}
    many, missing = troubles(observe("a", "b", hosts=hosts, **cards))
    assert (many[:2], missing[:2]) == (("a", "warning"), ("b", "bad"))
    assert missing[2].endswith(" 2")


def test_little_locked_memory_matters_only_with_rdma():
    assert not troubles(observe(a={"limits": LOCKED, "gpus": ()}))


def test_homes_that_are_shared_are_named():
    homes = {NOTEBOOK: (NOTEBOOK,), "a": (NOTEBOOK,), "b": ("b",), "c": ("b",)}
    told = {host: brief.split()[-1] for host, brief in briefs(observe(homes=homes), "home").items()}
    assert told == {"a": "notebook", "b": "c", "c": "b"}
    assert briefs(observe(), "home") == dict.fromkeys("abc", "its own")


@pytest.mark.parametrize(
    ("free", "level"),
    [(NO_SPACE_BYTES - 1, "bad"), (LEAST_FREE_BYTES - 1, "warning"), (LEAST_FREE_BYTES, None)],
)
def test_space_is_judged_by_what_is_free(free, level):
    for place, folder in (("temp_free_bytes", "/tmp"), ("memory_free_bytes", "/dev/shm")):
        found = troubles(observe(a={place: free}))
        assert [each[:2] for each in found] == ([("a", level)] if level else [])
        assert all(folder in each[2] for each in found)


def test_facts_that_a_system_does_not_tell_are_no_trouble():
    bare = HostFacts(
        python="3.11.7", wire="jupyter-dist/4", release="0.1.0", versions={"numpy": "2.4.0"}
    )
    observation = observe("a", "b")
    observation.facts["b"] = replace(bare, machine="somewhere")
    assert not troubles(replace(observation, attempts=attempts_of("a", "b")))
