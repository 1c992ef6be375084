"""Cells that say something, two hundred and more: the cell alone says what is saved of it."""

WAIT = "import random, time; time.sleep(random.random() / 100)\n"
"""So that ranks come in another order each time."""

PROGRAMS = {
    "a line of each rank": "{wait}print('rank', rank, {k})",
    "lines in step": "for step in range({k} + 2):\n    {wait}    print(step, rank)",
    "equal lines": "{wait}print('equal', {k})",
    "some equal lines": "{wait}print('odd' if rank % 2 else 'even', {k})\n{wait}print('all')",
    "one rank says more": "if rank == {k} % 4:\n    {wait}    print('alone')\n{wait}print('end', rank, {k})",
    "a partial line": "{wait}print('half', rank, end='')\n{wait}print(' whole {k}', end='')",
    "a line in two parts": "print('a', end='', flush=True)\n{wait}print(rank, {k})",
    "both streams": (
        "import sys\nprint('out 1', rank)\n{wait}print('err', rank, file=sys.stderr)\n"
        "print('out 2', {k})\nprint('err 2', file=sys.stderr)\nprint('out 3')"
    ),
    "warnings": "import warnings\n{wait}print('before')\nwarnings.warn('odd {k}')\nprint('after', rank)",
    "a log": (
        "import logging\nfor step in range(3):\n    {wait}    print('step', step, {k})\n"
        "    logging.getLogger('x').warning('warned %d of rank %d', step, rank)"
    ),
    "a table": "{wait}print('\\n'.join('row %d of %d' % (row, rank) for row in range({k} + 2)))",
    "values": "{wait}rank * {k}",
    "equal values": "{wait}{{'k': {k}}}",
    "lines and values": "{wait}print('x', rank)\n{wait}'v%d {k}' % rank",
    "an error of one rank": "{wait}print('try', rank)\nif rank == {k} % 4: raise ValueError('bad {k}')",
    "an error of all": "{wait}print('try', rank, {k})\n1 / (rank * 0)",
    "html": "from IPython.display import HTML, display\n{wait}display(HTML('<b>%d {k}</b>' % rank))",
    "rich between lines": (
        "from IPython.display import Markdown, display\nprint('above', rank)\n{wait}"
        "display(Markdown('*{k}*'))\n{wait}print('below', rank)"
    ),
    "an update": (
        "from IPython.display import HTML, display\nshown = display(HTML('first'), display_id=True)\n"
        "{wait}shown.update(HTML('<i>%d {k}</i>' % rank))"
    ),
    "cleared": (
        "from IPython.display import clear_output\nprint('gone')\n{wait}clear_output()\n"
        "print('kept', rank, {k})"
    ),
    "a figure": (
        "import matplotlib.pyplot as plt\n_ = plt.figure(figsize=(1, 1)).gca().plot([1, rank, {k}])\n"
        "{wait}print('drawn', {k})"
    ),
    "C": (
        "import ctypes\nlibc = ctypes.CDLL(None)\n{wait}print('Python', rank)\n"
        "_ = libc.printf(b'C {k}\\n'), libc.fflush(None)\nprint('Python again')"
    ),
    "a child process": (
        "import subprocess, sys\nprint('before', rank)\n{wait}"
        "_ = subprocess.run(['echo', 'child {k}'])\nprint('after', rank)"
    ),
    "a shell command": "print('before', rank)\n!echo shell {k}\nprint('after')",
    "threads that are joined": (
        "import threading\n{wait}threads = [threading.Thread(target=print, args=(k,)) for k in range(2)]\n"
        "for thread in threads:\n    thread.start(); thread.join()\nprint('joined', rank, {k})"
    ),
    "a bar": (
        "from tqdm import tqdm\nfor _ in tqdm(range({k} + 3), desc='epoch'):\n    {wait}    pass"
    ),
    "a collective": (
        "import numpy as np\n{wait}total = comm.all_reduce(np.ones(2) * rank)\n"
        "print('sum', total)\nprint('mine', rank, {k})"
    ),
    "many lines": "for k in range(300):\n    print(k, rank)\n{wait}print('end', {k})",
}


def cells(variants):
    """Return (name, code) of each program, in so many variants."""
    programs = PROGRAMS.items()
    return [(f"{name} {k}", _write(text, k)) for name, text in programs for k in range(variants)]


def _write(program, k):
    """Fill in a number, and a wait in all variants but the first."""
    return program.format(k=k, wait=WAIT if k else "pass\n")
