from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AgentEvent(_message.Message):
    __slots__ = ("joined", "engines_started", "engine_exited", "signal_sent", "telemetry", "start_problem", "all_stopped", "placed", "note", "code_lacks", "code_taken", "code_committed", "records", "stacks_dumped", "ras_read", "service_started", "place_taken", "notice", "resume", "number", "taken", "is_last")
    JOINED_FIELD_NUMBER: _ClassVar[int]
    ENGINES_STARTED_FIELD_NUMBER: _ClassVar[int]
    ENGINE_EXITED_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_SENT_FIELD_NUMBER: _ClassVar[int]
    TELEMETRY_FIELD_NUMBER: _ClassVar[int]
    START_PROBLEM_FIELD_NUMBER: _ClassVar[int]
    ALL_STOPPED_FIELD_NUMBER: _ClassVar[int]
    PLACED_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    CODE_LACKS_FIELD_NUMBER: _ClassVar[int]
    CODE_TAKEN_FIELD_NUMBER: _ClassVar[int]
    CODE_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    STACKS_DUMPED_FIELD_NUMBER: _ClassVar[int]
    RAS_READ_FIELD_NUMBER: _ClassVar[int]
    SERVICE_STARTED_FIELD_NUMBER: _ClassVar[int]
    PLACE_TAKEN_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_FIELD_NUMBER: _ClassVar[int]
    joined: Joined
    engines_started: EnginesStarted
    engine_exited: EngineExited
    signal_sent: SignalSent
    telemetry: Telemetry
    start_problem: StartProblem
    all_stopped: AllStopped
    placed: Placed
    note: Note
    code_lacks: CodeLacks
    code_taken: CodeTaken
    code_committed: CodeCommitted
    records: Records
    stacks_dumped: StacksDumped
    ras_read: RasRead
    service_started: ServiceStarted
    place_taken: PlaceTaken
    notice: Notice
    resume: Resume
    number: int
    taken: int
    is_last: bool
    def __init__(self, joined: _Optional[_Union[Joined, _Mapping]] = ..., engines_started: _Optional[_Union[EnginesStarted, _Mapping]] = ..., engine_exited: _Optional[_Union[EngineExited, _Mapping]] = ..., signal_sent: _Optional[_Union[SignalSent, _Mapping]] = ..., telemetry: _Optional[_Union[Telemetry, _Mapping]] = ..., start_problem: _Optional[_Union[StartProblem, _Mapping]] = ..., all_stopped: _Optional[_Union[AllStopped, _Mapping]] = ..., placed: _Optional[_Union[Placed, _Mapping]] = ..., note: _Optional[_Union[Note, _Mapping]] = ..., code_lacks: _Optional[_Union[CodeLacks, _Mapping]] = ..., code_taken: _Optional[_Union[CodeTaken, _Mapping]] = ..., code_committed: _Optional[_Union[CodeCommitted, _Mapping]] = ..., records: _Optional[_Union[Records, _Mapping]] = ..., stacks_dumped: _Optional[_Union[StacksDumped, _Mapping]] = ..., ras_read: _Optional[_Union[RasRead, _Mapping]] = ..., service_started: _Optional[_Union[ServiceStarted, _Mapping]] = ..., place_taken: _Optional[_Union[PlaceTaken, _Mapping]] = ..., notice: _Optional[_Union[Notice, _Mapping]] = ..., resume: _Optional[_Union[Resume, _Mapping]] = ..., number: _Optional[int] = ..., taken: _Optional[int] = ..., is_last: bool = ...) -> None: ...

class Resume(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: str
    def __init__(self, session: _Optional[str] = ...) -> None: ...

class Joined(_message.Message):
    __slots__ = ("host", "hostname", "pid", "version", "cpu_count", "memory_total_bytes", "log_dir", "gpu_count", "slots", "wire", "machine", "python", "versions", "interfaces", "home_address", "local_address", "failed_addresses", "devices", "gpus", "gpu_problem", "links", "numa_nodes")
    class VersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    HOST_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CPU_COUNT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOG_DIR_FIELD_NUMBER: _ClassVar[int]
    GPU_COUNT_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    WIRE_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    PYTHON_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    INTERFACES_FIELD_NUMBER: _ClassVar[int]
    HOME_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LOCAL_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    FAILED_ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_PROBLEM_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    NUMA_NODES_FIELD_NUMBER: _ClassVar[int]
    host: str
    hostname: str
    pid: int
    version: str
    cpu_count: int
    memory_total_bytes: int
    log_dir: str
    gpu_count: int
    slots: int
    wire: str
    machine: str
    python: str
    versions: _containers.ScalarMap[str, str]
    interfaces: _containers.RepeatedCompositeFieldContainer[Interface]
    home_address: str
    local_address: str
    failed_addresses: _containers.RepeatedScalarFieldContainer[str]
    devices: _containers.RepeatedScalarFieldContainer[str]
    gpus: _containers.RepeatedCompositeFieldContainer[GpuLinks]
    gpu_problem: str
    links: bytes
    numa_nodes: int
    def __init__(self, host: _Optional[str] = ..., hostname: _Optional[str] = ..., pid: _Optional[int] = ..., version: _Optional[str] = ..., cpu_count: _Optional[int] = ..., memory_total_bytes: _Optional[int] = ..., log_dir: _Optional[str] = ..., gpu_count: _Optional[int] = ..., slots: _Optional[int] = ..., wire: _Optional[str] = ..., machine: _Optional[str] = ..., python: _Optional[str] = ..., versions: _Optional[_Mapping[str, str]] = ..., interfaces: _Optional[_Iterable[_Union[Interface, _Mapping]]] = ..., home_address: _Optional[str] = ..., local_address: _Optional[str] = ..., failed_addresses: _Optional[_Iterable[str]] = ..., devices: _Optional[_Iterable[str]] = ..., gpus: _Optional[_Iterable[_Union[GpuLinks, _Mapping]]] = ..., gpu_problem: _Optional[str] = ..., links: _Optional[bytes] = ..., numa_nodes: _Optional[int] = ...) -> None: ...

class GpuLinks(_message.Message):
    __slots__ = ("index", "uuid", "name", "pcie_generation", "pcie_lanes", "nvlink_version", "nvlink_count")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PCIE_GENERATION_FIELD_NUMBER: _ClassVar[int]
    PCIE_LANES_FIELD_NUMBER: _ClassVar[int]
    NVLINK_VERSION_FIELD_NUMBER: _ClassVar[int]
    NVLINK_COUNT_FIELD_NUMBER: _ClassVar[int]
    index: int
    uuid: str
    name: str
    pcie_generation: int
    pcie_lanes: int
    nvlink_version: int
    nvlink_count: int
    def __init__(self, index: _Optional[int] = ..., uuid: _Optional[str] = ..., name: _Optional[str] = ..., pcie_generation: _Optional[int] = ..., pcie_lanes: _Optional[int] = ..., nvlink_version: _Optional[int] = ..., nvlink_count: _Optional[int] = ...) -> None: ...

class Interface(_message.Message):
    __slots__ = ("name", "address", "prefix_length", "speed_mbps")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PREFIX_LENGTH_FIELD_NUMBER: _ClassVar[int]
    SPEED_MBPS_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    prefix_length: int
    speed_mbps: int
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., prefix_length: _Optional[int] = ..., speed_mbps: _Optional[int] = ...) -> None: ...

class EnginesStarted(_message.Message):
    __slots__ = ("pids",)
    class PidsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    PIDS_FIELD_NUMBER: _ClassVar[int]
    pids: _containers.ScalarMap[str, int]
    def __init__(self, pids: _Optional[_Mapping[str, int]] = ...) -> None: ...

class EngineExited(_message.Message):
    __slots__ = ("engine", "pid", "exit_code", "signal", "stdout_tail", "stdout_offset", "stderr_tail", "stderr_offset", "evidence")
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    STDOUT_TAIL_FIELD_NUMBER: _ClassVar[int]
    STDOUT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STDERR_TAIL_FIELD_NUMBER: _ClassVar[int]
    STDERR_OFFSET_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    engine: str
    pid: int
    exit_code: int
    signal: int
    stdout_tail: bytes
    stdout_offset: int
    stderr_tail: bytes
    stderr_offset: int
    evidence: Evidence
    def __init__(self, engine: _Optional[str] = ..., pid: _Optional[int] = ..., exit_code: _Optional[int] = ..., signal: _Optional[int] = ..., stdout_tail: _Optional[bytes] = ..., stdout_offset: _Optional[int] = ..., stderr_tail: _Optional[bytes] = ..., stderr_offset: _Optional[int] = ..., evidence: _Optional[_Union[Evidence, _Mapping]] = ...) -> None: ...

class Evidence(_message.Message):
    __slots__ = ("oom_kills", "memory_limit_bytes", "memory_available_bytes", "memory", "calls", "gpu_errors", "address_limit_bytes", "is_shared_memory_full", "kernel")
    OOM_KILLS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_AVAILABLE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    GPU_ERRORS_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    IS_SHARED_MEMORY_FULL_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    oom_kills: int
    memory_limit_bytes: int
    memory_available_bytes: int
    memory: _containers.RepeatedCompositeFieldContainer[MemorySample]
    calls: bytes
    gpu_errors: _containers.RepeatedScalarFieldContainer[str]
    address_limit_bytes: int
    is_shared_memory_full: bool
    kernel: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, oom_kills: _Optional[int] = ..., memory_limit_bytes: _Optional[int] = ..., memory_available_bytes: _Optional[int] = ..., memory: _Optional[_Iterable[_Union[MemorySample, _Mapping]]] = ..., calls: _Optional[bytes] = ..., gpu_errors: _Optional[_Iterable[str]] = ..., address_limit_bytes: _Optional[int] = ..., is_shared_memory_full: bool = ..., kernel: _Optional[_Iterable[str]] = ...) -> None: ...

class MemorySample(_message.Message):
    __slots__ = ("age_s", "rss_bytes")
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    age_s: float
    rss_bytes: int
    def __init__(self, age_s: _Optional[float] = ..., rss_bytes: _Optional[int] = ...) -> None: ...

class SignalSent(_message.Message):
    __slots__ = ("request_id", "engines")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ENGINES_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    engines: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, request_id: _Optional[str] = ..., engines: _Optional[_Iterable[str]] = ...) -> None: ...

class Collective(_message.Message):
    __slots__ = ("sequence", "operation", "seconds", "is_running", "site", "group", "arguments", "root", "is_earlier", "awaits")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    IS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    IS_EARLIER_FIELD_NUMBER: _ClassVar[int]
    AWAITS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    operation: str
    seconds: float
    is_running: bool
    site: str
    group: str
    arguments: str
    root: int
    is_earlier: bool
    awaits: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, sequence: _Optional[int] = ..., operation: _Optional[str] = ..., seconds: _Optional[float] = ..., is_running: bool = ..., site: _Optional[str] = ..., group: _Optional[str] = ..., arguments: _Optional[str] = ..., root: _Optional[int] = ..., is_earlier: bool = ..., awaits: _Optional[_Iterable[int]] = ...) -> None: ...

class EngineSample(_message.Message):
    __slots__ = ("engine", "cpu_percent", "rss_bytes", "collective", "state", "major_faults_per_s", "gpu_memory_bytes", "core_s", "core_wait_s", "is_starved")
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    CPU_PERCENT_FIELD_NUMBER: _ClassVar[int]
    RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    COLLECTIVE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MAJOR_FAULTS_PER_S_FIELD_NUMBER: _ClassVar[int]
    GPU_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    CORE_S_FIELD_NUMBER: _ClassVar[int]
    CORE_WAIT_S_FIELD_NUMBER: _ClassVar[int]
    IS_STARVED_FIELD_NUMBER: _ClassVar[int]
    engine: str
    cpu_percent: float
    rss_bytes: int
    collective: Collective
    state: str
    major_faults_per_s: float
    gpu_memory_bytes: int
    core_s: float
    core_wait_s: float
    is_starved: bool
    def __init__(self, engine: _Optional[str] = ..., cpu_percent: _Optional[float] = ..., rss_bytes: _Optional[int] = ..., collective: _Optional[_Union[Collective, _Mapping]] = ..., state: _Optional[str] = ..., major_faults_per_s: _Optional[float] = ..., gpu_memory_bytes: _Optional[int] = ..., core_s: _Optional[float] = ..., core_wait_s: _Optional[float] = ..., is_starved: bool = ...) -> None: ...

class Telemetry(_message.Message):
    __slots__ = ("cpu_percent", "memory_used_bytes", "engines", "gpus", "nics", "age_s", "engines_age_s")
    CPU_PERCENT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    ENGINES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    NICS_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    ENGINES_AGE_S_FIELD_NUMBER: _ClassVar[int]
    cpu_percent: float
    memory_used_bytes: int
    engines: _containers.RepeatedCompositeFieldContainer[EngineSample]
    gpus: bytes
    nics: bytes
    age_s: float
    engines_age_s: float
    def __init__(self, cpu_percent: _Optional[float] = ..., memory_used_bytes: _Optional[int] = ..., engines: _Optional[_Iterable[_Union[EngineSample, _Mapping]]] = ..., gpus: _Optional[bytes] = ..., nics: _Optional[bytes] = ..., age_s: _Optional[float] = ..., engines_age_s: _Optional[float] = ...) -> None: ...

class StartProblem(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class AllStopped(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Note(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class Notice(_message.Message):
    __slots__ = ("reason", "is_ending", "is_withdrawn")
    REASON_FIELD_NUMBER: _ClassVar[int]
    IS_ENDING_FIELD_NUMBER: _ClassVar[int]
    IS_WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    reason: str
    is_ending: bool
    is_withdrawn: bool
    def __init__(self, reason: _Optional[str] = ..., is_ending: bool = ..., is_withdrawn: bool = ...) -> None: ...

class Placed(_message.Message):
    __slots__ = ("request_id", "path", "problem")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    path: str
    problem: str
    def __init__(self, request_id: _Optional[str] = ..., path: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class PlaceTaken(_message.Message):
    __slots__ = ("request_id", "taken_bytes")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TAKEN_BYTES_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    taken_bytes: int
    def __init__(self, request_id: _Optional[str] = ..., taken_bytes: _Optional[int] = ...) -> None: ...

class CodeLacks(_message.Message):
    __slots__ = ("request_id", "problem", "indices")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    INDICES_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    problem: str
    indices: bytes
    def __init__(self, request_id: _Optional[str] = ..., problem: _Optional[str] = ..., indices: _Optional[bytes] = ...) -> None: ...

class CodeTaken(_message.Message):
    __slots__ = ("request_id", "number", "problem")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    number: int
    problem: str
    def __init__(self, request_id: _Optional[str] = ..., number: _Optional[int] = ..., problem: _Optional[str] = ...) -> None: ...

class CodeCommitted(_message.Message):
    __slots__ = ("request_id", "problem", "removed", "stale")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    problem: str
    removed: int
    stale: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, request_id: _Optional[str] = ..., problem: _Optional[str] = ..., removed: _Optional[int] = ..., stale: _Optional[_Iterable[str]] = ...) -> None: ...

class Records(_message.Message):
    __slots__ = ("request_id", "data", "is_last")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    data: bytes
    is_last: bool
    def __init__(self, request_id: _Optional[str] = ..., data: _Optional[bytes] = ..., is_last: bool = ...) -> None: ...

class StacksDumped(_message.Message):
    __slots__ = ("request_id", "engines")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ENGINES_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    engines: _containers.RepeatedCompositeFieldContainer[EngineStacks]
    def __init__(self, request_id: _Optional[str] = ..., engines: _Optional[_Iterable[_Union[EngineStacks, _Mapping]]] = ...) -> None: ...

class EngineStacks(_message.Message):
    __slots__ = ("engine", "stacks")
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    STACKS_FIELD_NUMBER: _ClassVar[int]
    engine: str
    stacks: bytes
    def __init__(self, engine: _Optional[str] = ..., stacks: _Optional[bytes] = ...) -> None: ...

class ServiceStarted(_message.Message):
    __slots__ = ("request_id", "address", "problem")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    address: str
    problem: str
    def __init__(self, request_id: _Optional[str] = ..., address: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class RasRead(_message.Message):
    __slots__ = ("request_id", "report")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    report: bytes
    def __init__(self, request_id: _Optional[str] = ..., report: _Optional[bytes] = ...) -> None: ...

class AgentCommand(_message.Message):
    __slots__ = ("start_engines", "send_signal", "stop", "place_chunk", "remove_placed", "admitted", "code_manifest", "code_chunk", "commit_code", "read_records", "dump_stacks", "read_ras", "start_service", "end_service", "heed_notices", "let_go", "observe", "number", "taken")
    START_ENGINES_FIELD_NUMBER: _ClassVar[int]
    SEND_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    PLACE_CHUNK_FIELD_NUMBER: _ClassVar[int]
    REMOVE_PLACED_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_FIELD_NUMBER: _ClassVar[int]
    CODE_MANIFEST_FIELD_NUMBER: _ClassVar[int]
    CODE_CHUNK_FIELD_NUMBER: _ClassVar[int]
    COMMIT_CODE_FIELD_NUMBER: _ClassVar[int]
    READ_RECORDS_FIELD_NUMBER: _ClassVar[int]
    DUMP_STACKS_FIELD_NUMBER: _ClassVar[int]
    READ_RAS_FIELD_NUMBER: _ClassVar[int]
    START_SERVICE_FIELD_NUMBER: _ClassVar[int]
    END_SERVICE_FIELD_NUMBER: _ClassVar[int]
    HEED_NOTICES_FIELD_NUMBER: _ClassVar[int]
    LET_GO_FIELD_NUMBER: _ClassVar[int]
    OBSERVE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    start_engines: StartEngines
    send_signal: SendSignal
    stop: Stop
    place_chunk: PlaceChunk
    remove_placed: RemovePlaced
    admitted: Admitted
    code_manifest: CodeManifest
    code_chunk: CodeChunk
    commit_code: CommitCode
    read_records: ReadRecords
    dump_stacks: DumpStacks
    read_ras: ReadRas
    start_service: StartService
    end_service: EndService
    heed_notices: HeedNotices
    let_go: LetGo
    observe: Observe
    number: int
    taken: int
    def __init__(self, start_engines: _Optional[_Union[StartEngines, _Mapping]] = ..., send_signal: _Optional[_Union[SendSignal, _Mapping]] = ..., stop: _Optional[_Union[Stop, _Mapping]] = ..., place_chunk: _Optional[_Union[PlaceChunk, _Mapping]] = ..., remove_placed: _Optional[_Union[RemovePlaced, _Mapping]] = ..., admitted: _Optional[_Union[Admitted, _Mapping]] = ..., code_manifest: _Optional[_Union[CodeManifest, _Mapping]] = ..., code_chunk: _Optional[_Union[CodeChunk, _Mapping]] = ..., commit_code: _Optional[_Union[CommitCode, _Mapping]] = ..., read_records: _Optional[_Union[ReadRecords, _Mapping]] = ..., dump_stacks: _Optional[_Union[DumpStacks, _Mapping]] = ..., read_ras: _Optional[_Union[ReadRas, _Mapping]] = ..., start_service: _Optional[_Union[StartService, _Mapping]] = ..., end_service: _Optional[_Union[EndService, _Mapping]] = ..., heed_notices: _Optional[_Union[HeedNotices, _Mapping]] = ..., let_go: _Optional[_Union[LetGo, _Mapping]] = ..., observe: _Optional[_Union[Observe, _Mapping]] = ..., number: _Optional[int] = ..., taken: _Optional[int] = ...) -> None: ...

class Admitted(_message.Message):
    __slots__ = ("host", "session")
    HOST_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    host: str
    session: str
    def __init__(self, host: _Optional[str] = ..., session: _Optional[str] = ...) -> None: ...

class RankPlace(_message.Message):
    __slots__ = ("rank", "world_size", "local_rank", "local_world_size", "host_rank", "host", "device", "engine")
    RANK_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    LOCAL_RANK_FIELD_NUMBER: _ClassVar[int]
    LOCAL_WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    HOST_RANK_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    host_rank: int
    host: str
    device: str
    engine: str
    def __init__(self, rank: _Optional[int] = ..., world_size: _Optional[int] = ..., local_rank: _Optional[int] = ..., local_world_size: _Optional[int] = ..., host_rank: _Optional[int] = ..., host: _Optional[str] = ..., device: _Optional[str] = ..., engine: _Optional[str] = ...) -> None: ...

class StartEngines(_message.Message):
    __slots__ = ("places", "generation", "server_public_key", "own_public_key", "own_secret_key", "communicator", "collective_timeout_s", "bind_host", "interface", "env", "cwd", "is_cwd_required", "jax", "save_on_preempt", "preempt_command", "relay", "home_path")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PLACES_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    SERVER_PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    OWN_PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    OWN_SECRET_KEY_FIELD_NUMBER: _ClassVar[int]
    COMMUNICATOR_FIELD_NUMBER: _ClassVar[int]
    COLLECTIVE_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    BIND_HOST_FIELD_NUMBER: _ClassVar[int]
    INTERFACE_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    IS_CWD_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    JAX_FIELD_NUMBER: _ClassVar[int]
    SAVE_ON_PREEMPT_FIELD_NUMBER: _ClassVar[int]
    PREEMPT_COMMAND_FIELD_NUMBER: _ClassVar[int]
    RELAY_FIELD_NUMBER: _ClassVar[int]
    HOME_PATH_FIELD_NUMBER: _ClassVar[int]
    places: _containers.RepeatedCompositeFieldContainer[RankPlace]
    generation: int
    server_public_key: str
    own_public_key: str
    own_secret_key: str
    communicator: str
    collective_timeout_s: float
    bind_host: str
    interface: str
    env: _containers.ScalarMap[str, str]
    cwd: str
    is_cwd_required: bool
    jax: str
    save_on_preempt: str
    preempt_command: str
    relay: str
    home_path: str
    def __init__(self, places: _Optional[_Iterable[_Union[RankPlace, _Mapping]]] = ..., generation: _Optional[int] = ..., server_public_key: _Optional[str] = ..., own_public_key: _Optional[str] = ..., own_secret_key: _Optional[str] = ..., communicator: _Optional[str] = ..., collective_timeout_s: _Optional[float] = ..., bind_host: _Optional[str] = ..., interface: _Optional[str] = ..., env: _Optional[_Mapping[str, str]] = ..., cwd: _Optional[str] = ..., is_cwd_required: bool = ..., jax: _Optional[str] = ..., save_on_preempt: _Optional[str] = ..., preempt_command: _Optional[str] = ..., relay: _Optional[str] = ..., home_path: _Optional[str] = ...) -> None: ...

class SendSignal(_message.Message):
    __slots__ = ("request_id", "engines", "signal", "cell_id")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ENGINES_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    CELL_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    engines: _containers.RepeatedScalarFieldContainer[str]
    signal: int
    cell_id: str
    def __init__(self, request_id: _Optional[str] = ..., engines: _Optional[_Iterable[str]] = ..., signal: _Optional[int] = ..., cell_id: _Optional[str] = ...) -> None: ...

class PlaceChunk(_message.Message):
    __slots__ = ("request_id", "data", "is_last")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    data: bytes
    is_last: bool
    def __init__(self, request_id: _Optional[str] = ..., data: _Optional[bytes] = ..., is_last: bool = ...) -> None: ...

class RemovePlaced(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class CodeManifest(_message.Message):
    __slots__ = ("request_id", "data", "is_last")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    data: bytes
    is_last: bool
    def __init__(self, request_id: _Optional[str] = ..., data: _Optional[bytes] = ..., is_last: bool = ...) -> None: ...

class CodeChunk(_message.Message):
    __slots__ = ("request_id", "number", "data")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    number: int
    data: bytes
    def __init__(self, request_id: _Optional[str] = ..., number: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class CommitCode(_message.Message):
    __slots__ = ("request_id", "is_wanted")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    IS_WANTED_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    is_wanted: bool
    def __init__(self, request_id: _Optional[str] = ..., is_wanted: bool = ...) -> None: ...

class ReadRecords(_message.Message):
    __slots__ = ("request_id", "last")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    last: int
    def __init__(self, request_id: _Optional[str] = ..., last: _Optional[int] = ...) -> None: ...

class DumpStacks(_message.Message):
    __slots__ = ("request_id", "engines", "is_native", "timeout_s")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ENGINES_FIELD_NUMBER: _ClassVar[int]
    IS_NATIVE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    engines: _containers.RepeatedScalarFieldContainer[str]
    is_native: bool
    timeout_s: float
    def __init__(self, request_id: _Optional[str] = ..., engines: _Optional[_Iterable[str]] = ..., is_native: bool = ..., timeout_s: _Optional[float] = ...) -> None: ...

class ReadRas(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class StartService(_message.Message):
    __slots__ = ("request_id", "service", "bind", "world_size")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    BIND_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    service: str
    bind: str
    world_size: int
    def __init__(self, request_id: _Optional[str] = ..., service: _Optional[str] = ..., bind: _Optional[str] = ..., world_size: _Optional[int] = ...) -> None: ...

class EndService(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class HeedNotices(_message.Message):
    __slots__ = ("is_wanted",)
    IS_WANTED_FIELD_NUMBER: _ClassVar[int]
    is_wanted: bool
    def __init__(self, is_wanted: bool = ...) -> None: ...

class LetGo(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Observe(_message.Message):
    __slots__ = ("is_close", "silent")
    IS_CLOSE_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    is_close: bool
    silent: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, is_close: bool = ..., silent: _Optional[_Iterable[str]] = ...) -> None: ...

class Stop(_message.Message):
    __slots__ = ("grace_s",)
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    grace_s: float
    def __init__(self, grace_s: _Optional[float] = ...) -> None: ...
