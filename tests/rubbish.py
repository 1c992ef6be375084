"""What nobody expects to be displayed, for tests that draw examples."""

from hypothesis import strategies as st

TEXT = st.text(st.characters(codec=None), max_size=5)
"""Lone surrogates among it."""
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
