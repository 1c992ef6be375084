"""Rich output that no page was made for: keys, ids, metadata and contents of any kind."""

from .deeds import Deed, raised

BEFORE, AFTER = "print('before')\n", "\nprint('after')\n7"
PUBLISH = "get_ipython().display_pub.publish({})"


def shown(name, code, **options):
    """Describe a display between two lines, of which neither may be lost."""
    code = f"from IPython.display import display, HTML, JSON, Image, SVG\n{BEFORE}{code}{AFTER}"
    return Deed(name, code, **{"value": "7", "says": "before\nafter\n", **options})


DISPLAYS = (
    shown("an id that is a number", "display('c', display_id=5)"),
    shown("an id that is a list", "display('c', display_id=[1])"),
    shown("an id that is bytes", "display('c', display_id=b'x')"),
    shown("an id of surrogates", "display('c', display_id='\\ud800')"),
    shown("an id of 1 MB", "display('c', display_id='x' * 1_000_000)"),
    shown(
        "an update of nothing",
        "from IPython.display import update_display\nupdate_display('c', display_id='none')",
    ),
    shown("keys that are numbers", "display({5: 6}, raw=True)"),
    shown(
        "keys of every kind", "display({None: 1, 2.5: 2, (1, 2): 3, b'k': 4, True: 5}, raw=True)"
    ),
    shown("keys of surrogates", "display({'\\ud800': 'x'}, raw=True)"),
    shown("no keys", "display({}, raw=True)"),
    shown("metadata with numbers for keys", "display(5, metadata={7: 1})"),
    shown("metadata in metadata", "display(5, metadata={'a': {7: {8: object()}}})"),
    raised(
        "metadata that is a list",
        BEFORE + PUBLISH.format("{'text/plain': 'x'}, metadata=[1]"),
        "TypeError",
        says="before\n",
    ),
    raised(
        "metadata that is text",
        BEFORE + PUBLISH.format("{'text/plain': 'x'}, metadata='m'"),
        "TypeError",
        says="before\n",
    ),
    shown(
        "a transient with numbers for keys", PUBLISH.format("{'text/plain': 'x'}, transient={1: 2}")
    ),
    shown("a transient that is no dictionary", PUBLISH.format("{'text/plain': 'x'}, transient=5")),
    shown(
        "an id in the transient that is an object",
        PUBLISH.format("{'text/plain': 'x'}, transient={'display_id': object()}"),
    ),
    shown("update that is text", PUBLISH.format("{'text/plain': 'x'}, update='yes'")),
    shown("plain text that is a number", PUBLISH.format("{'text/plain': 5}")),
    shown("plain text that is None", PUBLISH.format("{'text/plain': None}")),
    shown("HTML that is an object", PUBLISH.format("{'text/html': object()}")),
    shown("HTML that is bytes", PUBLISH.format("{'text/html': b'<b>x</b>'}")),
    shown("HTML without an end", "display(HTML('<table><tr><td>' * 200))"),
    shown("HTML of scripts", "display(HTML('<script>alert(1)</script></div></body>'))"),
    shown("a picture that is text", PUBLISH.format("{'image/png': 'no picture'}")),
    shown("a picture that is a list", PUBLISH.format("{'image/png': [1, 2]}")),
    shown("a picture of bytes", PUBLISH.format("{'image/png': b'\\x89PNG\\xff'}")),
    shown(
        "a picture as wide as NaN",
        PUBLISH.format(
            "{'image/png': b'x'}, metadata={'image/png': {'width': float('nan'), 'height': -1}}"
        ),
    ),
    shown("SVG that is a number", PUBLISH.format("{'image/svg+xml': 5}")),
    shown("JSON of NaN", "display(JSON({'a': float('nan'), 'b': float('inf')}))"),
    shown("JSON with numbers for keys", "display(JSON({1: {2: 3}}))"),
    shown(
        "JSON 2,000 deep",
        "x = []\nfor _ in range(2000): x = [x]\n" + PUBLISH.format("{'application/json': x}"),
    ),
    shown(
        "JSON that holds itself",
        "x = []; x.append(x)\n" + PUBLISH.format("{'application/json': x}"),
    ),
    shown(
        "JSON of numbers beyond 64 bits",
        PUBLISH.format("{'application/json': {'n': 2 ** 70, 'm': -2 ** 70}}"),
    ),
    shown(
        "JSON of sets and objects",
        PUBLISH.format("{'application/json': {'s': {1, 2}, 'o': object()}}"),
    ),
    shown(
        "a widget that is not there",
        PUBLISH.format("{'application/vnd.jupyter.widget-view+json': {'model_id': 5}}"),
    ),
    shown(
        "a widget that is text", PUBLISH.format("{'application/vnd.jupyter.widget-view+json': 'x'}")
    ),
    shown("an unknown kind", PUBLISH.format("{'application/x-odd': {'a': object()}}")),
    shown("a kind that is no kind", PUBLISH.format("{'<b>': 'x', '': 'y', 'text': 'z'}")),
    shown(
        "numbers of numpy",
        "import numpy\n"
        + PUBLISH.format("{'application/json': {'a': numpy.float32(1), 'b': numpy.arange(3)}}"),
    ),
    raised(
        "a dictionary that lies",
        BEFORE
        + "class Odd(dict):\n    def items(self): raise SystemExit(3)\n    __iter__ = keys = items\n"
        + PUBLISH.format("Odd(a=1)"),
        "SystemExit",
        says="before\n",
    ),
    shown(
        "text that lies",
        "class Odd(str):\n    def encode(self, *a): raise SystemExit(3)\n    __str__ = encode\n"
        + PUBLISH.format("{'text/plain': Odd('x')}"),
    ),
    shown(
        "clear_output of an object",
        "from IPython.display import clear_output\nclear_output(wait=object())",
        says="after",
    ),
    shown(
        "1,000 displays",
        "for k in range(1000): display({'text/plain': str(k)}, raw=True)",
        within_s=4,
    ),
    shown(
        "a handle that is updated",
        "h = display('a', display_id=True)\nfor k in range(50): h.update(k)",
    ),
    raised("a display of no dictionary", BEFORE + PUBLISH.format("5"), "", says="before\n"),
    raised("a display of None", BEFORE + PUBLISH.format("None"), "", says="before\n"),
)
