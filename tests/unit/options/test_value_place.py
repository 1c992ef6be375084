import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.options.value_place import MOST_STEPS, Attribute, Index, read_place


@pytest.mark.parametrize(
    ("text", "name", "steps"),
    [
        ("w", "w", []),
        (" w[:10] ", "w", [Index(slice(None, 10, None))]),
        ("w[-1, 2:, ...]", "w", [Index((-1, slice(2, None, None), ...))]),
        ("w[None, ::2]", "w", [Index((None, slice(None, None, 2)))]),
        ("state['loss'][-1]", "state", [Index("loss"), Index(-1)]),
        ("model.config.lr", "model", [Attribute("config"), Attribute("lr")]),
    ],
)
def test_places_are_a_name_and_steps(text, name, steps):
    place = read_place(text)
    assert (place.name, list(place.steps)) == (name, steps)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a + b",
        "f(x)",
        "a[f(x)]",
        "a[b]",
        "a[1.5]",
        "a[True]",
        "a[b'x']",
        "a[x for x in y]",
        "[a]",
        "a; b",
        "a = 1",
        "__import__('os').system('x')",
        "(lambda: 1)()",
        "a := 1",
        "a\x00b",
        "a" + ".b" * (MOST_STEPS + 1),
        "a" * 1000,
        "(" * 300 + "a" + ")" * 300,
    ],
)
def test_what_would_run_code_is_no_place(text):
    with pytest.raises(UsageError):
        read_place(text)
