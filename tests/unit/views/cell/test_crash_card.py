import re

from msgspec.structs import replace

from jupyter_dist.model.ranks.crashes.crash import CrashReport
from jupyter_dist.model.ranks.records import CallRecord
from jupyter_dist.protocol.messages import ErrorInfo, RankFinished
from jupyter_dist.text.sizes import tell_part
from jupyter_dist.views.cell.cell_picture import CellRecord
from jupyter_dist.views.cell.crash_card import (
    MOST_CARDS,
    crash_html,
    crash_lines,
    sparkline,
)
from jupyter_dist.views.cell.output_html import saved_bundle

GIB = 2**30
FULL = CrashReport(
    rank=2,
    host="nodeA",
    pid=4711,
    reason="its process was killed by SIGSEGV in native code called from In[3]:7",
    signal=11,
    cell="In[3]",
    line="In[3]:7",
    memory_limit_bytes=4 * GIB,
    memory_available_bytes=12 * GIB,
    memory_total_bytes=64 * GIB,
    rss_history=((12.0, GIB // 2), (6.0, 2 * GIB), (0.5, 39 * GIB // 10)),
    stderr=("loading <b>", "\x1b[31mwent wrong\x1b[0m"),
    stacks=(
        "Fatal Python error: Segmentation fault",
        "Current thread 0x01 (most recent call first):",
        '  File "/dev/shm/x/In_3_0a1b2c3d.py", line 7 in <module>',
    ),
    calls=(
        CallRecord(16, "barrier", 1_000_000, 1_200_000, site="In[3]:5"),
        CallRecord(17, "all_reduce", 5, dtype="float32", shape="4", site="In[3]:7"),
    ),
)


def gone(rank, host="b", **known):
    return CrashReport(rank=rank, host=host, reason=f"host {host} gone", **known)


def test_what_was_last_on_stderr_names_cells_as_people_know_them():
    said = '  File "/dev/shm/x/In_3_0a1b2c3d.py", line 7, in work'
    text = "\n".join(crash_lines([gone(2, stderr=(said,))], (0,)))
    assert "In[3]:7, in work" in text
    assert "/dev/shm" not in text


def test_a_card_says_all_that_is_known():
    assert "\n".join(crash_lines([FULL], (0, 1, 3))) == (
        "✗ rank 2 is lost: its process was killed by SIGSEGV in native code called from In[3]:7\n"
        "  nodeA · pid 4711 · In[3]:7\n"
        "  memory: ▂▅█ 3.9 GiB (512 MiB 12 s before), limit of its cgroup 4 GiB, "
        "12 of 64 GiB free on the host\n"
        "  last on stderr:\n"
        "    loading <b>\n"
        "    went wrong\n"
        "  last collectives:\n"
        "    #16 barrier() at In[3]:5: 0.2 ms\n"
        "    #17 all_reduce(float32[4]) at In[3]:7: did not end\n"
        "  stack:\n"
        "    Fatal Python error: Segmentation fault\n"
        "    Current thread 0x01 (most recent call first):\n"
        "      In[3]:7 in <module>\n"
        "  → %dist_heal replaces it · %dist_shrink goes on without it · "
        "%%spmd --ranks 0-1,3 works with the others"
    )


def test_long_calls_are_told_in_seconds():
    times_ns = (999_400_000, 999_600_000, 3_110_000_000)
    calls = tuple(CallRecord(n, "barrier", 1, 1 + ns) for n, ns in enumerate(times_ns))
    failed = CallRecord(3, "barrier", 1, 12_000_000_001, has_failed=True)
    told = crash_lines([gone(3, calls=(*calls, failed))])
    ends = [line.rpartition(": ")[2] for line in told if "barrier" in line]
    assert ends == ["999 ms", "1.0 s", "3.1 s", "failed after 12.0 s"]


def test_html_is_escaped_and_needs_no_styles_of_a_page():
    markup = crash_html([FULL], (0, 1, 3))
    assert "loading &lt;b&gt;" in markup
    assert "&lt;module&gt;" in markup
    assert set(re.findall(r"<([a-z]+)", markup)) <= {
        "div",
        "pre",
        "span",
        "details",
        "summary",
        "b",
    }
    assert "class=" not in markup
    assert "\x1b" not in markup


def test_text_and_html_say_the_same():
    copied = re.sub(r"<[^>]*>", "", crash_html([FULL], (0,)))
    for words in (
        "rank 2 is lost",
        "SIGSEGV",
        "3.9 GiB",
        "#17 all_reduce",
        "%dist_heal",
        "went wrong",
    ):
        assert words in copied
        assert words in "\n".join(crash_lines([FULL], (0,)))


def test_long_parts_are_folded():
    crash = CrashReport(rank=0, host="a", reason="x", stderr=tuple(map(str, range(20))))
    assert "<summary>" in crash_html([crash])
    assert "<summary>" not in crash_html([FULL])


def test_ranks_that_ended_alike_share_a_card():
    lines = crash_lines([gone(3, pid=8), gone(2, pid=7)], (0, 1))
    assert lines[0] == "✗ ranks 2-3 are lost: host b gone"
    assert lines[1] == "  b"
    assert len([line for line in lines if line.startswith("✗")]) == 1
    assert "replaces them" in lines[-1]


def test_what_was_measured_of_each_does_not_part_them():
    silent = [
        CrashReport(rank=rank, host="b", reason=f"silent for 10.{rank} s (limit 10 s)")
        for rank in (0, 1)
    ]
    assert crash_lines(silent)[0].startswith("✗ ranks 0-1 are lost: silent for 10.0 s")
    killed = [
        CrashReport(rank=rank, host="b", reason=f"killed (it used {tell_part(used, 4 * GIB)})")
        for rank, used in enumerate((900 * 2**10, 205 * 2**20, 39 * GIB // 10))
    ]
    assert crash_lines(killed)[0].startswith("✗ ranks 0-2 are lost: killed (it used 900 KiB of")


def test_different_ends_have_cards_of_their_own_and_the_way_on_comes_last():
    lines = crash_lines([FULL, gone(3)], (0, 1))
    assert [line for line in lines if line.startswith("✗")] == [
        f"✗ rank 2 is lost: {FULL.reason}",
        "✗ rank 3 is lost: host b gone",
    ]
    assert [line for line in lines if "→" in line] == lines[-1:]


def test_very_many_ends_are_counted():
    crashes = [gone(rank, host=f"h{rank}x") for rank in range(MOST_CARDS + 3)]
    assert crash_lines(crashes)[-1] == f"… and 3 more: ranks {MOST_CARDS}-{MOST_CARDS + 2}"


def test_without_survivors_only_healing_is_left():
    assert crash_lines([FULL])[-1] == "  → %dist_heal replaces it"


def test_what_is_done_without_asking_takes_the_place_of_the_offers():
    outlook = "rank 2 is lost, and with it the cluster ends (--on-loss stop)"
    lines = crash_lines([replace(FULL, outlook=outlook)], (0, 1))
    assert lines[-1] == f"  → {outlook}"
    assert "%dist_heal" not in "\n".join(lines)


def test_of_very_many_outlooks_some_are_told():
    crashes = [gone(rank, outlook=f"rank {rank} heals") for rank in range(7)]
    last = crash_lines(crashes)[-1]
    assert last.startswith("  → rank 0 heals · rank 1 heals · ")
    assert last.endswith("rank 3 heals · … and 3 more in the same way")


def test_without_a_crash_nothing_is_shown():
    assert crash_html([]) == ""
    assert crash_lines([]) == []


def test_a_sparkline_ends_with_the_last_size_and_keeps_peaks():
    assert sparkline([0, 4, 8]) == "▁▅█"
    assert sparkline([]) == sparkline([0, 0]) == ""
    assert sparkline([1, 1, 9, 1, 1], most=3)[1:] == "█▁"
    assert len(sparkline(range(61))) <= 30


# --- in the output of a cell ---


def record():
    record = CellRecord(3)
    for rank in (0, 1):
        error = ErrorInfo("PeerFailed", "rank 2 is lost", ("Traceback of PeerFailed",))
        record.take_finished(RankFinished(rank, "peer_failed", 1.0, error=error))
    error = ErrorInfo("RankLost", FULL.reason)
    record.take_finished(RankFinished(2, "lost", 0.0, error=error, crash=FULL))
    return record


def test_the_card_takes_the_place_of_the_error_and_comes_first():
    bundle = saved_bundle(record().final_picture())
    for text in bundle.values():
        assert text.count("SIGSEGV") == 1
        assert text.index("rank 2 is lost") < text.index("PeerFailed on ranks 0-1")
        assert "%%spmd --ranks 0-1 works" in text
    assert "Traceback of" not in bundle["text/plain"]


def test_a_quiet_cell_shows_the_card_as_well():
    picture = record().final_picture().only_what_went_wrong()
    assert not picture.is_empty
    assert "%dist_heal" in saved_bundle(picture)["text/html"]


def test_a_lost_rank_of_which_nothing_is_known_is_an_error_as_before():
    record = CellRecord(1)
    record.take_finished(RankFinished(0, "lost", 0.0, error=ErrorInfo("RankLost", "gone")))
    assert "RankLost on rank 0: gone" in saved_bundle(record.final_picture())["text/plain"]
