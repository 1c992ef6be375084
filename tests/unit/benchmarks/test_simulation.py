"""What simulated ranks and hosts answer, without a socket."""

import asyncio
import json
import signal
from types import SimpleNamespace

import pytest
from fakes.simulation import FOUND, START, FakeDealer, FakeLoop, FakeStream

from jupyter_dist.control.ledger import Ledger, Sign, read_stamp
from jupyter_dist.launch.launcher import JoinTicket, Ports
from jupyter_dist.model.hosts.rank import RankInfo
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.codec import encode
from jupyter_dist.protocol.messages import (
    AbortCommunicator,
    Answered,
    CellResult,
    CompleteCode,
    Hello,
    Leave,
    ListNames,
    NoAnswer,
    ObjectsStored,
    Question,
    Ready,
    Regroup,
    RunCell,
    StoreObjects,
    Welcome,
)
from jupyter_dist.version import WIRE

TICKET = JoinTicket(
    wire=WIRE,
    cluster="demo",
    host="",
    homes=("127.0.0.1",),
    ports=Ports(1, 2, 3),
    dial_timeout_s=1.0,
    ca_certificate=b"",
    certificate=b"",
    private_key=b"",
    machine="here",
    coordinator_pid=1,
)


@pytest.fixture
def cells(benchmark_module):
    return benchmark_module("simulation.cells")


@pytest.fixture
def crowd(benchmark_module):
    return benchmark_module("simulation.rank").Crowd()


@pytest.fixture
def loop(benchmark_module, monkeypatch):
    loop, lines = FakeLoop(), benchmark_module("simulation.lines")
    monkeypatch.setattr(lines.asyncio, "get_running_loop", lambda: loop)
    monkeypatch.setattr(lines, "open_line", FakeDealer)
    return loop


@pytest.fixture
def host(benchmark_module, loop, crowd):
    simulation = benchmark_module("simulation.host")
    host = simulation.SimulatedHost(3, 2, TICKET, None, crowd)
    host._stream, host._found = FakeStream(), FOUND
    host._obey(pb.AgentCommand(start_engines=START))
    return host


@pytest.fixture
def rank(host):
    return host.ranks["4-a"]


def hear(rank, *messages):
    """Let messages come to a rank; return what it said to them."""
    dealer = dealer_of(rank)
    dealer.said.clear()
    dealer.arrived += messages
    rank.mend()
    return list(dealer.said)


def dealer_of(rank):
    return rank._line._dealer


def test_a_host_introduces_itself_as_a_machine_of_its_own(host):
    joined = host._introduction(FOUND)
    assert (joined.host, joined.machine, joined.slots) == ("node00003", "node00003", 2)
    assert not host._ticket.coordinator_pid, "it sees no process of the coordinator's machine"


def test_ranks_are_started_and_say_hello(host):
    (told,) = host._stream.of("engines_started")
    started = sorted(told.pids.items())
    assert started == sorted((name, rank.pid) for name, rank in host.ranks.items())
    hellos = [dealer_of(rank).said[0] for rank in host.ranks.values()]
    assert [(hello.rank, hello.generation) for hello in hellos] == [(4, 1), (5, 1)]
    assert len({hello.address for hello in hellos}) == 2


def test_no_process_can_have_the_id_of_a_rank(rank):
    assert rank.pid > 1 << 22, "Linux's highest"


def test_a_rank_joins_a_generation_and_the_next_one_under_another_number(rank):
    info = RankInfo(6, 8, 0, 2, 1, "node00003")
    (ready,) = hear(rank, Welcome(2, info, "ring", (), b"key"))
    assert ready == Ready(6, 2)
    (hello,) = hear(rank, Regroup(3, 7))
    assert isinstance(hello, Hello)
    assert (hello.rank, hello.generation) == (7, 3)


def test_cells_are_over_at_once_but_one_that_is_held(rank, cells, crowd):
    said = hear(rank, RunCell("a", 1, cells.EMPTY), RunCell("b", 1, cells.LINE))
    assert [(each.cell_id, each.status) for each in said] == [("a", "ok"), ("b", "ok")]
    assert [output.text for output in said[1].outputs] == ["rank 4\n"]
    assert hear(rank, RunCell("c", 1, cells.HELD)) == []
    (result,) = hear(rank, AbortCommunicator(1, 2, "raised"))
    assert (result.cell_id, result.status, result.error.peer_rank) == ("c", "peer_failed", 2)
    assert hear(rank, AbortCommunicator(1, 2, "raised")) == [], "it is not in a cell"


def test_a_late_rank_answers_when_that_time_is_over(rank, cells, crowd, loop):
    crowd.late_s = 2.0
    assert hear(rank, RunCell("a", 1, cells.EMPTY)) == []
    assert [timer.delay_s for timer in loop.later] == [2.0]
    loop.pass_time()
    assert [each.cell_id for each in dealer_of(rank).said] == ["a"]


def test_objects_are_stored_and_questions_answered(rank):
    said = hear(
        rank,
        StoreObjects("r", ("x",), (1,)),
        Question("q", ListNames()),
        Question("p", CompleteCode("a.", 2)),
    )
    assert said[0] == ObjectsStored(4, "r")
    assert [each.request_id for each in said[1:]] == ["q", "p"]
    assert all(isinstance(each, Answered) for each in said[1:])
    assert isinstance(said[2].answer, NoAnswer)


def test_it_is_told_when_all_ranks_are_held(host, cells, crowd):
    first, second = host.ranks.values()
    hear(first, RunCell("a", 1, cells.HELD))
    assert first.is_held
    assert not crowd.all_held.is_set()
    hear(second, RunCell("a", 1, cells.HELD))
    assert crowd.all_held.is_set()
    first.interrupt()
    assert dealer_of(first).said[-1].status == "interrupted"
    assert not first.is_held
    assert not crowd.all_held.is_set()


def test_a_rank_that_died_is_not_waited_for(host, rank, cells, crowd, loop):
    host.kill(rank)
    (exited,) = host._stream.of("engine_exited")
    assert (exited.engine, exited.signal) == ("4-a", signal.SIGKILL)
    assert dealer_of(rank).is_closed
    assert not loop.readers
    hear(host.ranks["5-a"], RunCell("a", 1, cells.HELD))
    assert crowd.all_held.is_set()


def test_signals_interrupt_or_kill_the_ranks_that_live(host, rank, cells):
    def send(number, *engines):
        signalled = pb.SendSignal(request_id="s", engines=engines, signal=number)
        host._obey(pb.AgentCommand(send_signal=signalled))
        return list(host._stream.of("signal_sent")[-1].engines)

    hear(rank, RunCell("a", 1, cells.HELD))
    assert send(signal.SIGINT, "4-a", "9-a") == ["4-a"]
    assert isinstance(dealer_of(rank).said[-1], CellResult)
    assert send(signal.SIGKILL, "5-a") == ["5-a"]
    assert list(host.ranks) == ["4-a"]


def test_a_host_says_its_last_once_its_ranks_have_left(host, loop):
    host._obey(pb.AgentCommand(stop=pb.Stop(grace_s=5.0)))
    for rank in list(host.ranks.values()):
        assert not host._stream.last
        hear(rank, Leave())
    assert [each.WhichOneof("event") for each in host._stream.last] == ["all_stopped"]
    loop.pass_time()
    assert len(host._stream.last) == 1


def test_a_host_whose_ranks_do_not_leave_says_its_last_all_the_same(host, loop):
    host._obey(pb.AgentCommand(stop=pb.Stop(grace_s=5.0)))
    loop.pass_time()
    assert len(host._stream.last) == 1


def test_ranks_are_told_of_while_all_is_to_be_told_and_the_host_always(host, loop):
    host._obey(pb.AgentCommand(observe=pb.Observe(is_close=True)))
    host._obey(pb.AgentCommand(observe=pb.Observe(is_close=False)))
    close, rare = host._stream.of("telemetry")
    assert [sample.engine for sample in close.engines] == ["4-a", "5-a"]
    assert not rare.engines
    assert [timer.is_over for timer in loop.later] == [True, False], "one rhythm at a time"
    assert loop.later[0].delay_s < loop.later[1].delay_s


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (pb.AgentCommand(read_records=pb.ReadRecords(request_id="r")), "records"),
        (pb.AgentCommand(dump_stacks=pb.DumpStacks(request_id="r")), "stacks_dumped"),
        (pb.AgentCommand(read_ras=pb.ReadRas(request_id="r")), "ras_read"),
        (pb.AgentCommand(place_chunk=pb.PlaceChunk(request_id="r", is_last=True)), "placed"),
    ],
)
def test_what_is_asked_of_an_agent_is_answered(host, command, kind):
    host._obey(command)
    assert [each.request_id for each in host._stream.of(kind)] == ["r"]


@pytest.fixture
def relayed(benchmark_module):
    """A rank's line by a relay that keeps its letters; and what the coordinator has of it."""
    lines, obeyed = benchmark_module("simulation.lines"), []
    relay = SimpleNamespace(lines={}, letters=[])
    relay.say = relay.letters.append
    line = lines.RelayedLine(relay, b"4-a", obeyed.append)
    return SimpleNamespace(relay=relay, line=line, obeyed=obeyed, coordinator=Ledger())


def deliver(relayed, message):
    """Let the coordinator say something to the rank."""
    first, body = relayed.coordinator.enter(encode(message))
    relayed.line.take(first, len(body), lambda: message)


def taken(relayed):
    """Let the coordinator take the letters; return those that were new to it."""
    letters = list(relayed.relay.letters)
    relayed.relay.letters.clear()
    return [
        letter
        for letter in letters
        if relayed.coordinator.take(read_stamp(letter.firsts[0]), len(letter.body))[0]
    ]


def test_what_a_rank_says_by_a_relay_is_numbered_and_comes_once(relayed):
    relayed.line.send(Hello(4, 1, 9, "10.0.0.4:1"))
    relayed.line.send(Ready(4, 1))
    letters = [*relayed.relay.letters]
    assert [letter.names for letter in letters] == [[b"4-a"]] * 2
    assert len(taken(relayed)) == 2
    relayed.line.resume()
    assert len(relayed.relay.letters) == 3, "that it resumes, and what was not confirmed"
    assert taken(relayed) == []


def test_a_rank_obeys_each_message_of_a_relay_once_and_confirms_it(relayed):
    deliver(relayed, Regroup(2, 5))
    first, body = next(relayed.coordinator.unacknowledged())
    relayed.line.take(first, len(body), lambda: pytest.fail("it was obeyed before"))
    assert relayed.obeyed == [Regroup(2, 5)]
    relayed.line.send(Ready(5, 2))
    taken(relayed)
    assert not list(relayed.coordinator.unacknowledged())


def test_a_rank_that_has_left_its_relay_is_not_among_those_that_live(relayed):
    assert relayed.relay.lines == {b"4-a": relayed.line}
    relayed.line.close()
    assert relayed.relay.lines == {}
    assert read_stamp(relayed.relay.letters[-1].firsts[0])[0] == Sign.LEAVES


@pytest.mark.parametrize(("hosts", "slots"), [(1, 8), (2, 2), (16, 4), (128, 8), (512, 8)])
def test_the_host_that_suffers_has_a_worker_of_its_own(benchmark_module, hosts, slots):
    module = benchmark_module("simulated_hosts")
    shares = module.share_hosts(hosts, slots)
    assert sum(shares) == hosts
    assert shares[-1] == 1
    assert all(0 < share * slots <= module.RANKS_OF_A_WORKER for share in shares)


def test_orders_find_the_hosts_of_a_worker(benchmark_module, loop, crowd, capsys, monkeypatch):
    module = benchmark_module("simulation.worker")
    killed = []
    host = SimpleNamespace(ranks={"a": "first", "b": "second"}, kill=killed.append)
    worker = module.Worker.__new__(module.Worker)
    worker._crowd, worker._hosts = crowd, [host]
    worker.obey({"do": "be late", "seconds": 1.5})
    worker.obey({"do": "kill a rank"})
    assert crowd.late_s == 1.5
    assert killed == ["second"]
    answers = capsys.readouterr().out.splitlines()
    assert len(answers) == 2
    assert answers[1].startswith('{"at_s": ')


@pytest.mark.parametrize(("is_held", "missing"), [(True, []), (False, [7])])
def test_those_who_do_not_come_into_the_cell_are_named(
    benchmark_module, crowd, capsys, is_held, missing
):
    module = benchmark_module("simulation.worker")
    ranks = {"a": SimpleNamespace(number=7, is_held=is_held)}
    crowd.take_in(living=1, held=int(is_held))

    async def ask():
        worker = module.Worker.__new__(module.Worker)
        worker._crowd, worker._hosts = crowd, [SimpleNamespace(ranks=ranks)]
        worker._loop = asyncio.get_running_loop()
        worker.obey({"do": "await held", "seconds": 0.01})
        await worker._held

    asyncio.run(ask())
    assert json.loads(capsys.readouterr().out) == {"missing": missing}
