"""Whatever ranks call, and in whatever order, the ring computes what numpy computes alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.matrix import only

from .ring_calls import RING, check, collectives, expected, given_by, same, step_of
from .ring_pool import Pool
from .ring_values import make

SIZES = (1, 2, 3, 4, 5)
BAD_CALLS = (
    {"do": "all_reduce", "raw": ("text",)},
    {"do": "all_reduce", "raw": ([1.0], "mean")},
    {"do": "all_reduce", "raw": ([1], "avg")},
    {"do": "broadcast", "raw": ([1.0], -1)},
    {"do": "all_to_all", "raw": (np.ones((7, 2)),)},
    {"do": "scatter", "raw": (None, 0)},
    {"do": "send", "raw": ([1.0], 99)},
    {"do": "send", "raw": (None, 0)},
    {"do": "recv", "raw": ("text", 0)},
    {"do": "send_recv", "raw": (np.ones(2), 0, None, 0)},
    {"do": "split", "raw": (-1,)},
    {"do": "split", "raw": ("red",)},
    {"do": "group", "steps": [{"do": "all_reduce", "raw": (1.0,)}]},
    {"do": "group", "steps": [{"do": "split", "raw": (0,)}]},
    {"do": "group", "steps": [{"do": "group", "steps": []}]},
    {
        "do": "group",
        "steps": [
            {"do": "send", "raw": (np.ones(2), 0)},
            {"do": "all_gather", "raw": (np.ones(2),)},
            {"do": "recv", "raw": (None, 0)},
        ],
    },
)


@pytest.fixture(scope="module", params=[1, 2, 5], ids="{} hosts".format)
def pool(request):
    """Five ranks for all tests of this module, on so many hosts."""
    pool = Pool(max(SIZES), hosts=request.param)
    yield pool
    pool.close()


def pytest_generate_tests(metafunc):
    if "size" in metafunc.fixturenames:
        metafunc.parametrize("size", only((3,), SIZES, at_night=(4,)))


def test_every_collective_computes_what_numpy_computes(pool, size):
    @settings(RING, max_examples=150)
    @given(calls=st.lists(collectives(size), min_size=1, max_size=4))
    def holds(calls):
        programs = [[step_of(call, rank, size) for call in calls] for rank in range(size)]
        answers = pool.run(programs)
        for number, call in enumerate(calls):
            inputs = [given_by(steps[number]) for steps in programs]
            for rank in range(size):
                check(answers[rank][number], expected(call, inputs, rank))

    holds()


def test_all_ranks_get_the_same_bits_each_time_however_sums_are_rounded(pool, size):
    @settings(RING, max_examples=50)
    @given(call=collectives(size, kind="any", names=("all_reduce",)))
    def holds(call):
        programs = [[step_of(call, rank, size)] * 2 for rank in range(size)]
        values = [answer["value"] for answers in pool.run(programs) for answer in answers]
        for value in values:
            same(value, values[0])

    holds()


@pytest.mark.parametrize(
    ("given_value", "op", "dtype"),
    [
        (2**40, "sum", "int64"),
        (-(2**62), "min", "int64"),
        (2**64 - 1, "max", "uint64"),
        (0.1, "sum", "float64"),
        (5e-324, "max", "float64"),
        (1 + 2**-52, "min", "float64"),
        (2**-24, "sum", "float16"),
        (True, "prod", "bool"),
        (0.1 + 1e300j, "max", "complex128"),
    ],
)
def test_numbers_arrive_exactly_and_stay_numbers(pool, size, given_value, op, dtype):
    number = np.dtype(dtype).type(given_value)
    reduce = {"do": "all_reduce", "on": "world", "raw": (number, op)}
    spread = {"do": "broadcast", "on": "world", "raw": (number, size - 1)}
    wanted = number
    for _rank in range(size - 1):
        wanted = wanted + number if op == "sum" else wanted
    for answers in pool.run([[reduce, spread]] * size):
        assert [answer.get("value") for answer in answers] == [wanted, number], answers
        assert {type(answer["value"]) for answer in answers} == {np.dtype(dtype).type}


def test_a_refused_call_leaves_the_ranks_in_step(pool, size):
    @settings(RING, max_examples=25)
    @given(
        bad=st.lists(
            st.lists(st.sampled_from(BAD_CALLS), max_size=4), min_size=size, max_size=size
        ),
        calls=st.lists(collectives(size), min_size=2, max_size=2),
        message=st.integers(0, 2**32),
    )
    def holds(bad, calls, message):
        array = (message, (3,), "int32")
        passed = {"do": "send_recv", "on": "world", "array": array, "layout": "plain", "out": None}
        programs = [
            [
                step_of(calls[0], rank, size),
                *({"do": "refused", "on": "world", "steps": [call]} for call in bad[rank]),
                passed
                | {
                    "arguments": {"dest": (rank + 1) % size, "source": (rank - 1) % size},
                    "room": array,
                    "room_layout": "plain",
                },
                step_of(calls[1], rank, size),
            ]
            for rank in range(size)
        ]
        answers = pool.run(programs)
        for rank in range(size):
            first, *refused, received, last = answers[rank]
            assert [answer["refused"] for answer in refused] == [True] * len(bad[rank]), refused
            check(received, make(*array))
            for call, number, answer in ((calls[0], 0, first), (calls[1], -1, last)):
                inputs = [given_by(steps[number]) for steps in programs]
                check(answer, expected(call, inputs, rank))

    holds()
