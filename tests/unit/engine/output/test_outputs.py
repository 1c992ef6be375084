"""`Outputs` without a process of its own: its streams lead to files of the test."""

import array
import contextlib
import fcntl
import itertools
import os
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jupyter_dist.engine.output import outputs as outputs_module
from jupyter_dist.engine.output.outputs import PARTIAL_LINE_PATIENCE_S, STREAMS, Outputs
from jupyter_dist.engine.output.stream_file import ErrorFile, StreamFile
from jupyter_dist.protocol.messages import Output


@pytest.fixture
def clock(monkeypatch):
    """Time that stands still unless the test moves it."""

    class Clock:
        now_s = 100.0

    monkeypatch.setattr(outputs_module, "monotonic", lambda: Clock.now_s)
    return Clock


@pytest.fixture
def files(tmp_path):
    """A descriptor for each stream, as `prepare_process` would have put on 1 and 2."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    descriptors = {name: os.open(tmp_path / name, flags, 0o600) for name in STREAMS}
    yield descriptors
    for descriptor in descriptors.values():
        os.close(descriptor)


@pytest.fixture
def outputs(tmp_path, files, clock, monkeypatch):
    # Streams that write to the test's files instead of to descriptors 1 and 2.
    stdout = StreamFile(files["stdout"])
    monkeypatch.setattr(outputs_module, "StreamFile", lambda _: stdout)
    errors = ErrorFile(files["stderr"], beside=files["stdout"])
    monkeypatch.setattr(outputs_module, "ErrorFile", lambda _, **_beside: errors)
    monkeypatch.setattr(outputs_module.os, "dup", lambda descriptor: descriptor)
    for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    made = Outputs({name: str(tmp_path / name) for name in STREAMS})
    yield made
    for tail in made._tails:
        os.close(tail._file)


def texts(taken):
    return [(output.kind, output.text) for output in taken[0]]


def test_bytes_of_any_writer_are_read_back_as_text_and_counted(outputs, files):
    os.write(files["stdout"], "from C: ä\n".encode())
    os.write(files["stderr"], b"oops\n")
    taken = outputs.take()
    assert texts(taken) == [("stdout", "from C: ä\n"), ("stderr", "oops\n")]
    assert taken[1] == (11, 5)
    assert outputs.take() == ((), (11, 5))


@pytest.mark.parametrize(
    ("first", "then", "told"),
    [
        (b"one\ntw", b"o\n", ["one\n", "two\n"]),
        (b"10%\r20%\r3", b"0%\r", ["10%\r20%\r", "30%\r"]),
        (b"\xff\xfe!", b"\n", ["\\xff\\xfe!\n"]),
        (b"", b"no newline", ["no newline"]),
    ],
)
def test_only_whole_lines_are_handed_out_before_the_end(outputs, files, first, then, told):
    os.write(files["stdout"], first)
    taken = texts(outputs.take())
    os.write(files["stdout"], then)
    taken += texts(outputs.take(is_final=True))
    assert taken == [("stdout", text) for text in told]


def test_a_character_that_comes_in_two_halves_is_whole(outputs, files):
    head, tail = "ä".encode()[:1], "ä\n".encode()[1:]
    os.write(files["stdout"], head)
    assert texts(outputs.take(is_final=True)) == []
    os.write(files["stdout"], tail)
    assert texts(outputs.take()) == [("stdout", "ä\n")]


def test_half_a_line_is_handed_out_after_a_while(outputs, files, clock):
    os.write(files["stdout"], b"Downloading...")
    handed_out = []
    for _ in range(5):
        handed_out.append(texts(outputs.take()))
        clock.now_s += PARTIAL_LINE_PATIENCE_S * 0.3
    assert handed_out == [[], [], [], [], [("stdout", "Downloading...")]]


GLOO = b"[Gloo] Rank 0 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1"


def test_chatter_of_libraries_is_left_out_and_counted_as_read(outputs, files):
    os.write(files["stdout"], b"one\n" + GLOO + b"\ntwo\n")
    taken = outputs.take()
    assert texts(taken) == [("stdout", "one\ntwo\n")]
    assert taken[1] == (len(GLOO) + 9, 0)
    os.write(files["stdout"], GLOO + b"\n")
    assert texts(outputs.take()) == []


@pytest.mark.parametrize(
    ("rest", "told"), [(GLOO[20:] + b"\nthree", "three"), (b"", GLOO[:20].decode())]
)
def test_half_a_line_that_begins_as_chatter_waits_for_its_other_half(
    outputs, files, clock, rest, told
):
    os.write(files["stdout"], b"one\n" + GLOO[:20])
    assert texts(outputs.take()) == [("stdout", "one\n")]
    clock.now_s += 100 * PARTIAL_LINE_PATIENCE_S
    assert texts(outputs.take()) == []
    os.write(files["stdout"], rest)
    assert texts(outputs.take(is_final=True)) == [("stdout", told)]


def test_a_figure_comes_after_the_text_that_was_printed_before_it(outputs):
    outputs.install()
    sys.stdout.write("before, without a newline")
    outputs.add(Output("display", data={"text/plain": "figure"}))
    sys.stdout.write("after\n")
    assert texts(outputs.take(is_final=True)) == [
        ("stdout", "before, without a newline"), ("display", ""), ("stdout", "after\n"),
    ]  # fmt: skip


def test_both_streams_are_told_in_the_order_in_which_they_were_printed(outputs):
    outputs.install()
    for step in range(3):
        print("step", step)
        print("half", end="", flush=True)
        print("careful", step, file=sys.stderr)
        print("more", step, file=sys.stderr)
        print(" a line")
    told = texts(outputs.take(is_final=True))
    assert told[:3] == [
        ("stdout", "step 0\n"),
        ("stderr", "careful 0\nmore 0\n"),
        ("stdout", "half a line\nstep 1\n"),
    ]
    assert told[-1] == ("stdout", "half a line\n")


@given(st.lists(st.sampled_from(["stdout", "stderr", "look"]), max_size=12))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_order_of_both_streams_does_not_depend_on_when_they_are_read(outputs, said):
    outputs.install()
    told = []
    for number, what in enumerate(said):
        if what == "look":
            told += texts(outputs.take())
        else:
            print(number, file=getattr(sys, what))
    told += texts(outputs.take(is_final=True))
    lines = [(kind, line) for kind, text in told for line in text.splitlines()]
    assert lines == [(what, str(n)) for n, what in enumerate(said) if what != "look"]


def test_a_flood_on_stderr_is_told_at_once(outputs):
    outputs.install()
    for number in range(1000):
        print(number, file=sys.stderr)
    assert len(texts(outputs.take())) == 1


def test_a_bar_that_has_ended_comes_before_what_clears_it(outputs):
    bar = outputs.bars.open("In_1_ab:2")
    bar.show({"n": 1}, 0.0)
    bar.show({"n": 9}, 0.1)
    bar.close()
    outputs.add(Output("clear_output"))
    outputs.bars.open("In_1_ab:2").show({"n": 0}, 0.0)
    told = [(each.kind, each.data.get("n")) for each in outputs.take(is_final=True)[0]]
    assert told == [("progress", 9), ("clear_output", None), ("progress", 0)]


def blocks(taken):
    return [output.text for output in taken[0] if output.is_block]


def test_lines_that_were_written_at_once_are_a_block_of_whole_lines(outputs):
    outputs.install()
    print("begin")
    print("t:", "x\ny")
    print("p\nq", "r\ns\n")
    print("end")
    taken = outputs.take()
    assert "".join(output.text for output in taken[0]) == "begin\nt: x\ny\np\nq r\ns\n\nend\n"
    assert blocks(taken) == ["t: x\ny\n", "p\nq r\n"]


def test_a_block_waits_for_the_end_of_its_last_line(outputs, files):
    outputs.install()
    sys.stdout.write("before\n1\n2")
    sys.stdout.flush()
    assert texts(outputs.take()) == []
    os.write(files["stdout"], b"\nafter\n")
    taken = outputs.take()
    assert blocks(taken) == ["before\n1\n2\n"]
    assert texts(taken)[-1] == ("stdout", "after\n")


def test_a_block_that_is_not_all_there_yet_is_waited_for_until_the_end(outputs, files):
    outputs.install()
    sys.stdout.buffer.blocks.append((2, 10))  # as a thread does before it writes
    os.write(files["stdout"], b"a\nbcd\n")
    assert texts(outputs.take()) == [("stdout", "a\n")]
    os.write(files["stdout"], b"efg\nh\n")
    assert blocks(outputs.take()) == ["bcd\nefg\n"]
    sys.stdout.buffer.blocks.append((13, 99))
    os.write(files["stdout"], b"i\nj\n")
    assert texts(outputs.take()) == []
    assert texts(outputs.take(is_final=True)) == [("stdout", "i\nj\n")]
    os.write(files["stdout"], b"k\n")
    assert texts(outputs.take()) == [("stdout", "k\n")]


def test_a_block_after_a_full_disk_is_only_text(outputs, files):
    outputs.install()
    with full_disk(files["stdout"]):
        sys.stdout.write("a\nb\n")
    sys.stdout.write("c\n")
    told = texts(outputs.take(is_final=True))
    assert "".join(text for _, text in told) == "a\nb\nc\n"
    sys.stdout.write("d\ne\n")
    assert blocks(outputs.take()) == ["d\ne\n"]


WRITES = st.lists(
    st.one_of(
        st.sampled_from(["x", "\n", "ä: ", "a\nb", "ö\n2\n", "1\n\n3"]), st.sampled_from([0, 1])
    ),
    max_size=25,
)


@given(WRITES, st.sampled_from([3, 7, 1 << 20]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_written_and_whenever_it_is_read_all_of_it_comes_in_order(
    outputs, monkeypatch, steps, size
):
    monkeypatch.setattr(outputs_module, "_READ_BYTES", size)
    outputs.install()
    written, taken = "", ()
    for step in [*steps, 1]:
        if isinstance(step, str):
            written += step
            sys.stdout.write(step)
        else:
            taken += outputs.take(is_final=bool(step))[0]
    assert "".join(output.text for output in taken) == written
    for output in taken:
        assert not output.is_block or "\n" in output.text[:-1]


def test_text_that_utf_8_does_not_know_can_be_printed_to_a_closed_stream(outputs):
    outputs.install()
    sys.stdout.close()
    sys.stdout.write("\ud800\n")
    assert texts(outputs.take()) == [("stdout", "\\ud800\n")]


@contextlib.contextmanager
def full_disk(descriptor):
    # os.dup is replaced here.
    kept, full = fcntl.fcntl(descriptor, fcntl.F_DUPFD, 3), os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, descriptor)
    yield
    os.dup2(kept, descriptor)
    os.close(kept)
    os.close(full)


def test_text_survives_a_full_disk(outputs, files):
    outputs.install()
    with full_disk(files["stdout"]):
        sys.stdout.write("still heard\n")
    assert texts(outputs.take()) == [("stdout", "still heard\n")]
    assert outputs.take()[1] == (0, 0)


def take_while(outputs, write):
    """Take what was said before `write`, which happens once it is known how much that is."""
    stdout = outputs._tails[0]
    measure = stdout.find_end

    def measure_and_write():
        stdout.find_end, end = measure, measure()
        write()
        return end

    stdout.find_end = measure_and_write
    return outputs.take()


TEXTS = st.sampled_from(["x", "\n", "ä: ", "a\nb", "ö\n2\n"])


@given(st.lists(st.tuples(TEXTS, st.booleans(), st.booleans()), max_size=12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_a_full_disk_does_not_take_keeps_its_place_whenever_it_is_read(outputs, files, steps):
    outputs.install()
    written, taken = "", ()
    for text, is_full, is_read in steps:

        def write(text=text, is_full=is_full):
            with full_disk(files["stdout"]) if is_full else contextlib.nullcontext():
                print(text, end="", flush=True)

        written += text
        if is_read:
            taken += take_while(outputs, write)[0]
        else:
            write()
    taken += outputs.take(is_final=True)[0]
    assert "".join(output.text for output in taken) == written


def test_what_a_full_disk_did_not_take_is_told_after_the_file_was_cut_short(outputs, files):
    outputs.install()
    print("lost with the file")
    with full_disk(files["stdout"]):
        print("still heard")
    os.truncate(files["stdout"], 0)
    assert texts(outputs.take()) == [("stdout", "still heard\n")]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), TimeoutError(110, "too long")])
def test_what_a_signals_handler_raises_in_a_write_is_raised_and_the_text_written_once(
    outputs, monkeypatch, error
):
    outputs.install()
    real = os.write

    def write_and_handle(descriptor, data):
        real(descriptor, data)
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write_and_handle)
        with pytest.raises(type(error)):
            sys.stdout.write("once\n")
    sys.stdout.write("more\n")
    assert texts(outputs.take(is_final=True)) == [("stdout", "once\nmore\n")]


def test_bytes_of_a_user_keep_their_place_and_come_as_any_array(outputs):
    outputs.install()
    sys.stdout.write("a\n")
    assert sys.stdout.buffer.write(array.array("B", b"b\n")) == 2
    print("c")
    assert texts(outputs.take()) == [("stdout", "a\nb\nc\n")]


def test_a_handler_may_print_while_a_line_is_written(outputs, monkeypatch):
    outputs.install()
    real = os.write

    def write_and_print(descriptor, data):
        written = real(descriptor, data)
        if data == b"outer\n":
            print("inner")
        return written

    monkeypatch.setattr(os, "write", write_and_print)
    print("outer")
    assert texts(outputs.take()) == [("stdout", "outer\ninner\n")]


@pytest.mark.parametrize("take_apart", ["close", "detach"])
def test_a_stream_that_a_cell_takes_apart_works_again(outputs, take_apart):
    outputs.install()
    print("first")
    getattr(sys.stdout, take_apart)()
    outputs.repair()
    print("second")
    assert texts(outputs.take(is_final=True)) == [("stdout", "first\nsecond\n")]


def test_a_write_that_takes_only_a_part_is_continued(outputs, monkeypatch):
    outputs.install()
    real, sizes = os.write, itertools.count(1)
    monkeypatch.setattr(
        outputs_module.os, "write", lambda fd, data: real(fd, bytes(data[: next(sizes)]))
    )
    sys.stdout.write("abcdefghij\n")
    assert texts(outputs.take()) == [("stdout", "abcdefghij\n")]


def test_a_stream_that_a_cell_replaced_is_put_back(outputs):
    outputs.install()
    ours = sys.stdout
    sys.stdout = None
    outputs.repair()
    assert sys.stdout is ours


def test_a_descriptor_that_a_cell_closed_is_opened_again(outputs, monkeypatch):
    real = os.fstat

    def state_of(descriptor):
        if descriptor == 2:
            raise OSError(9, "Bad file descriptor")
        return real(descriptor)

    calls = []
    monkeypatch.setattr(outputs_module.os, "fstat", state_of)
    monkeypatch.setattr(outputs_module.os, "dup2", lambda spare, to: calls.append((spare, to)))
    outputs.install()
    outputs.repair()
    assert calls == [(outputs._spare[1], 2)]


def test_what_one_has_said_is_not_handed_out_as_the_words_of_another(outputs, files):
    outputs.owner = "cell-1"
    os.write(files["stdout"], b"one\n")
    assert texts(outputs.take("cell-1", is_final=True)) == [("stdout", "one\n")]
    outputs.owner = "task-1"
    os.write(files["stdout"], b"two\n")
    assert texts(outputs.take("cell-1")) == []
    assert texts(outputs.take("task-1")) == [("stdout", "two\n")]


class AnArea:
    def __init__(self):
        self.taken = []

    def take(self, outputs):
        self.taken += outputs


def test_an_area_gets_what_is_said_while_it_is_entered(outputs, files):
    area = AnArea()
    os.write(files["stdout"], b"before\n")
    outputs.enter_area(area)
    os.write(files["stdout"], b"within\n")
    assert outputs.take()[0] == (Output("stdout", "before\n"),)
    assert area.taken == [Output("stdout", "within\n")], "also while it is written"
    outputs.add(Output("display"))
    assert outputs.leave_area() is area
    os.write(files["stdout"], b"after\n")
    assert outputs.take(is_final=True)[0] == (Output("stdout", "after\n"),)
    assert area.taken == [Output("stdout", "within\n"), Output("display")]


def test_to_clear_an_area_without_a_page_clears_nothing_outside_of_it(outputs):
    outputs.enter_area(None)
    outputs.add(Output("display"))
    outputs.add(Output("clear_output"))
    outputs.leave_area()
    assert outputs.take(is_final=True)[0] == (Output("display"),)


def test_an_area_that_is_never_left_ends_with_its_cell(outputs, files):
    outputs.enter_area(AnArea())
    outputs.take(is_final=True)
    os.write(files["stdout"], b"next cell\n")
    assert outputs.take(is_final=True)[0] == (Output("stdout", "next cell\n"),)


PIECES = st.lists(
    st.one_of(
        st.sampled_from([b"\n", b"\r", b"line 7\n", "\u00e9".encode(), "\U0001f600".encode()]),
        st.binary(max_size=5),
    ),
    max_size=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(reads=st.lists(PIECES, min_size=1, max_size=6), cut=st.integers(0, 4))
def test_what_is_not_handed_out_yet_is_not_counted_as_told(tmp_path_factory, reads, cut):
    """A rank may end between any two bytes: its agent tells all that follows what was told."""
    path = tmp_path_factory.mktemp("told") / "stdout"
    path.touch()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    tail = outputs_module._Tail("stdout", str(path), StreamFile(descriptor))
    text = ""
    try:
        for pieces in reads:
            os.write(descriptor, b"".join(pieces))
            text += "".join(each.text for each in tail.read(False, max(0, tail.find_end() - cut)))
    finally:
        os.close(tail._file)
        os.close(descriptor)
    written = path.read_bytes()
    whole, rest = (
        each.decode("utf-8", "backslashreplace") for each in (written, written[tail.told :])
    )
    assert whole.startswith(text)
    assert whole.endswith(rest)
    twice = len(text) + len(rest) - len(whole)
    assert twice == 0 or (twice > 0 and "\\x" in whole)


def test_a_line_that_is_read_in_part_is_not_told(outputs, files):
    os.write(files["stdout"], b"line 1\nline")
    taken, offsets = outputs.take()
    assert [output.text for output in taken] == ["line 1\n"]
    assert offsets == (len("line 1\n"), 0)
    os.write(files["stdout"], b" 2\n")
    assert texts(outputs.take()) == [("stdout", "line 2\n")]
    assert outputs.offsets == (len("line 1\nline 2\n"), 0)
