"""What nobody expects to be displayed, for tests that draw examples."""

from hypothesis import strategies as st
from msgspec import inspect

TEXT = st.text(st.characters(codec=None), max_size=5)
"""Lone surrogates among it."""
WORDS = TEXT | st.lists(
    st.sampled_from(["\x1b[", "31m", "\n", "</td>", "\ud800", "9" * 20, "a", "\x00"]), max_size=5
).map("".join)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | TEXT
    | st.binary(max_size=4)
    | st.sampled_from([complex(1, 2), range(3), frozenset({1}), 10**400])
)
KEYS = st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.binary(max_size=3)
RUBBISH = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=10,
)
"""Its `repr` is an expression, once `nan` and `inf` have values."""
MIMES = st.sampled_from(
    [
        "text/plain",
        "text/html",
        "text/markdown",
        "text/latex",
        "image/png",
        "image/svg+xml",
        "application/json",
        "application/vnd.jupyter.widget-view+json",
    ]
)
BUNDLES = st.dictionaries(MIMES | KEYS, RUBBISH, max_size=3)
SIZES = st.dictionaries(
    st.sampled_from(["width", "height", "image/png"]) | KEYS, RUBBISH, max_size=2
)


def of_type(kind):
    """Values of a message's type, with rubbish wherever its decoder would let it through."""
    return _of(inspect.type_info(kind))


_PLAIN = {
    inspect.StrType: WORDS,
    inspect.IntType: st.integers(0, 5) | st.integers(-(2**63), 2**63 - 1),
    inspect.FloatType: st.floats(0, 1e6) | st.floats(),
    inspect.BoolType: st.booleans(),
    inspect.NoneType: st.none(),
    inspect.BytesType: st.binary(max_size=4),
    inspect.AnyType: RUBBISH,
}


def _of(kind):
    if type(kind) in _PLAIN:
        return _PLAIN[type(kind)]
    match kind:
        case inspect.LiteralType():
            return st.sampled_from(kind.values)
        case inspect.UnionType():
            return st.one_of([_of(each) for each in kind.types])
        case inspect.VarTupleType():
            return st.lists(_of(kind.item_type), max_size=3).map(tuple)
        case inspect.TupleType():
            return st.tuples(*map(_of, kind.item_types))
        case inspect.DictType():
            return st.dictionaries(_of(kind.key_type), _of(kind.value_type), max_size=3)
    fields = {field.name: _of(field.type) for field in kind.fields}
    return st.builds(kind.cls, **fields)
