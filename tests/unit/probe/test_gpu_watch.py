import pytest
from fakes.recorded_nvml import UNKNOWN, NVMLError, RecordedNvml, read_record

from jupyter_dist.model.hosts.topology import GpuProcess, GpuView
from jupyter_dist.probe import gpus
from jupyter_dist.probe.gpu_wiring import link_groups
from jupyter_dist.probe.gpus import RELOAD_INTERVAL_S, GpuWatch

LOST = "GPU is lost"
NAMES = {3977: "python3", 1201: "Xorg", 9120: "ffmpeg", 2310: "python", 2311: "python"}


def watch(ours=range(41200, 41300)):
    return GpuWatch(lambda pid: pid in ours, lambda pid: NAMES.get(pid, ""))


def changed(gpu, **answers):
    """Let one GPU of a record answer otherwise; None: this is not supported any more."""

    def change(record):
        for question, answer in answers.items():
            record["gpus"][gpu][f"nvmlDeviceGet{question}"] = answer
            if answer is None:
                del record["gpus"][gpu][f"nvmlDeviceGet{question}"]

    return change


def test_a_gpu_tells_everything_that_its_driver_does(recorded):
    recorded("hgx_h200")
    assert watch().sample(0.0)[3] == GpuView(
        index=3,
        name="NVIDIA H200",
        utilisation_percent=100.0,
        memory_used_bytes=118 * 10**9,
        memory_total_bytes=150754820096,
        power_w=644.2,
        power_limit_w=700.0,
        temperature_c=63.0,
        pcie_generation=5,
        pcie_lanes=16,
    )


@pytest.mark.parametrize("name", ["hgx_h200", "pcie_only"])
def test_no_question_depends_on_the_answer_to_another(recorded, name):
    whole = recorded(name)
    first = watch().sample(0.0)[1]
    told = {function for function, gpu in whole.calls if gpu == 1}
    lost = set()
    for function in told & set(whole.record["gpus"][1]):
        recorded(name, changed(1, **{function.removeprefix("nvmlDeviceGet"): None}))
        again = watch().sample(0.0)[1]
        other = {
            field
            for field in GpuView.__struct_fields__
            if getattr(again, field) != getattr(first, field)
        }
        fields = 2 if function.endswith("MemoryInfo") else 1
        assert len(other) <= fields, (function, other)
        lost |= other
    assert lost >= {"name", "utilisation_percent", "memory_used_bytes", "power_w", "temperature_c"}


def test_a_function_that_the_module_does_not_have_costs_nothing_else(machine):
    class Older(RecordedNvml):
        nvmlDeviceGetTemperature = None  # noqa: N815
        nvmlDeviceGetCurrentClocksEventReasons = None  # noqa: N815

    machine(Older(read_record("hgx_h200")))
    gpu = watch().sample(0.0)[5]
    assert (gpu.temperature_c, gpu.is_throttled, gpu.power_w) == (0.0, False, 633.8)


def test_what_never_changes_is_asked_once(recorded):
    nvml = recorded("hgx_h200")
    watching = watch()
    for second in range(3):
        watching.sample(float(second))
    names = [gpu for function, gpu in nvml.calls if function == "nvmlDeviceGetName"]
    assert sorted(names) == list(range(8))
    assert sum(function == "nvmlDeviceGetPowerUsage" for function, _ in nvml.calls) == 24


@pytest.mark.parametrize(
    ("reasons", "is_throttled"),
    [(0, False), (4, False), (1, False), (0x20, True), (0x40, True), (0x80, True), (0x24, True)],
)
def test_heat_and_power_supplies_throttle_and_the_limit_of_power_does_not(
    recorded, reasons, is_throttled
):
    recorded("hgx_h200", changed(0, CurrentClocksEventReasons=reasons))
    assert watch().sample(0.0)[0].is_throttled is is_throttled
    recorded("pcie_only", changed(0, CurrentClocksThrottleReasons=reasons))
    assert watch().sample(0.0)[0].is_throttled is is_throttled, "as older drivers call it"


@pytest.mark.parametrize(
    ("answers", "mig"),
    [
        ({"MigMode": [0, 1]}, ""),
        ({"MigMode": None}, ""),
        ({"MigMode": [1, 1]}, "on"),
        ({"MigMode": [1, 1], "MaxMigDeviceCount": None}, "on"),
        ({"MigMode": [1, 0], "MigDeviceHandleByIndex": [{"a": 1}]}, "1 instance"),
        ({"MigMode": [1, 1], "MigDeviceHandleByIndex": [{"a": 1}, None, {"a": 2}]}, "2 instances"),
    ],
)
def test_instances_of_a_divided_gpu_are_counted(recorded, answers, mig):
    recorded("hgx_h200", changed(0, **answers))
    assert watch().sample(0.0)[0].mig == mig


def test_uncorrected_errors_are_told(recorded):
    recorded("hgx_h200", changed(6, TotalEccErrors=2))
    assert [gpu.ecc_errors for gpu in watch().sample(0.0)] == [0] * 6 + [2, 0]


# --- strangers ---


def test_processes_that_are_not_ours_are_named(recorded):
    recorded("hgx_h200")
    assert [gpu.strangers for gpu in watch().sample(0.0)] == [()] * 7 + [
        (GpuProcess(pid=3977, name="python3", memory_bytes=23 * 10**9),)
    ]


def test_strangers_come_by_memory_and_each_of_them_once(recorded):
    both = [{"pid": 1201, "usedGpuMemory": 2 * 10**9}]
    recorded("pcie_only", changed(3, GraphicsRunningProcesses=both))
    gpus = watch(ours=(2310, 2311)).sample(0.0)
    assert [(each.name, each.memory_bytes) for each in gpus[3].strangers] == [
        ("Xorg", 2 * 10**9),
        ("ffmpeg", 0),
    ]
    twice = [{"pid": 1201, "usedGpuMemory": 1}]
    recorded("pcie_only", changed(2, ComputeRunningProcesses=twice))
    assert [each.memory_bytes for each in watch().sample(0.0)[2].strangers] == [4194304]


def test_a_process_that_cannot_be_seen_is_not_called_a_stranger(recorded):
    recorded("hgx_h200", changed(0, ComputeRunningProcesses=[{"pid": 7, "usedGpuMemory": 1}]))
    assert watch().sample(0.0)[0].strangers == ()


def test_of_many_strangers_the_eight_largest_are_told(recorded):
    crowd = [{"pid": 3977 + i, "usedGpuMemory": i} for i in range(20)]
    recorded("hgx_h200", changed(0, ComputeRunningProcesses=crowd))
    strangers = GpuWatch(lambda _: False, str).sample(0.0)[0].strangers
    assert [each.memory_bytes for each in strangers] == list(range(19, 11, -1))


# --- errors ---


def test_the_last_critical_error_stays_with_its_age(recorded):
    nvml = recorded("hgx_h200")
    watching = watch()
    nvml.record["events"] += [{"gpu": 2, "xid": 63}, {"gpu": 2, "xid": 94}, {"gpu": 5, "xid": 79}]
    told = {gpu.index: (gpu.xid, gpu.xid_age_s) for gpu in watching.sample(10.0) if gpu.xid}
    assert told == {2: (94, 0.0), 5: (79, 0.0)}
    later = {gpu.index: (gpu.xid, gpu.xid_age_s) for gpu in watching.sample(13.5) if gpu.xid}
    assert later == {2: (94, 3.5), 5: (79, 3.5)}


def without_events_of_the_first(record):
    del record["gpus"][0]["nvmlDeviceRegisterEvents"]
    record["events"] += [{"gpu": 0, "xid": 31}, {"gpu": 1, "xid": 31}]


@pytest.mark.parametrize(
    ("change", "second"),
    [
        (lambda record: record["events"].append({"gpu": 1, "xid": 5, "kind": 0x10}), 0),
        (without_events_of_the_first, 31),
        (lambda record: record.pop("events"), 0),
    ],
    ids=["events of another kind", "none of one GPU", "none at all"],
)
def test_only_critical_errors_of_gpus_that_have_events_are_told(recorded, change, second):
    recorded("hgx_h200", change)
    assert [gpu.xid for gpu in watch().sample(0.0)] == [0, second] + [0] * 6


# --- GPUs that go and come ---


def test_a_gpu_that_has_fallen_off_the_bus_is_shown_with_the_reason(recorded):
    nvml = recorded("hgx_h200")
    watching = watch()
    watching.sample(0.0)
    whole, nvml.record["gpus"][4] = nvml.record["gpus"][4], None
    nvml.record["events"].append({"gpu": 4, "xid": 79})
    gone = watching.sample(1.0)[4]
    assert gone == GpuView(index=4, name="NVIDIA H200", xid=79, problem=LOST)
    nvml.record["gpus"][4] = whole
    assert watching.sample(2.0)[4].problem == ""
    assert watching.sample(2.0)[4].power_w == 620.5


def test_a_gpu_that_is_lost_from_the_beginning_is_shown_and_found_when_it_is_back(recorded):
    whole = read_record("hgx_h200")["gpus"][0]

    def lose(record):
        record["gpus"][0] = None

    nvml = recorded("hgx_h200", lose)
    watching = watch()
    assert watching.sample(0.0)[0] == GpuView(index=0, problem=LOST)
    nvml.record["gpus"][0] = whole
    assert watching.sample(1.0)[0].name == "NVIDIA H200"


def test_nvml_is_opened_again_after_a_reload_of_its_driver(recorded):
    nvml = recorded("hgx_h200")
    watching = watch()
    before = watching.sample(0.0)
    nvml.openings.clear()
    nvml.driver = 0
    assert {gpu.problem for gpu in watching.sample(1.0)} == {"Unknown Error"}
    watching.sample(2.0)
    assert nvml.openings == ["shutdown", "init"]
    nvml.driver = 2
    between = watching.sample(1.0 + RELOAD_INTERVAL_S)
    assert {gpu.problem for gpu in between} == {"Uninitialized"}
    assert nvml.openings == ["shutdown", "init"], "not more often than that"
    assert watching.sample(2.0 + RELOAD_INTERVAL_S) == before
    nvml.record["events"].append({"gpu": 4, "xid": 79})
    assert watching.sample(3.0 + RELOAD_INTERVAL_S)[4].xid == 79, "errors are heard again"
    assert nvml.openings == ["shutdown", "init"] * 2


def test_errors_from_before_a_reload_are_remembered(recorded):
    nvml = recorded("hgx_h200", lambda record: record["events"].append({"gpu": 2, "xid": 31}))
    watching = watch()
    assert watching.sample(0.0)[2].xid == 31
    nvml.driver = 2
    watching.sample(1.0)
    found = watching.sample(2.0)[2]
    assert (found.xid, found.xid_age_s, found.problem) == (31, 2.0, "")


def test_one_odd_answer_is_no_reload(recorded, monkeypatch):
    nvml = recorded("hgx_h200")

    def fail(*_):
        raise NVMLError(UNKNOWN)

    monkeypatch.setattr(nvml, "nvmlDeviceGetPowerUsage", fail, raising=False)
    watching = watch()
    nvml.openings.clear()
    for now_s in range(3):
        assert {gpu.problem for gpu in watching.sample(float(now_s))} == {""}
    assert nvml.openings == []


def test_what_else_asks_finds_no_gpu_while_the_driver_is_away(recorded):
    nvml = recorded("hgx_h200")
    assert gpus.count_gpus() == 8
    nvml.driver = 0
    assert gpus.count_gpus() == 0
    assert (gpus.gpu_links(), gpus.bus_of("0"), link_groups()) == ((), "", ())
