"""The cells of the tenth notebook: ranks in the debugger, and where their time goes."""

DEBUG = [
    (
        "md",
        """# Debug all ranks, and see where their time goes

`breakpoint()` works on ranks: one prompt opens for all that are stopped, and those that wait for
them are held, for as long as you think. Nothing that you type ends the cell.
[docs/how_to/debugger.md](../docs/how_to/debugger.md) has all of it.""",
    ),
    ("py", "%load_ext jupyter_dist\n%dist_start -n 4"),
    (
        "md",
        """At the prompt, `n` and all commands of `pdb` go to the ranks that it names; `1 p x` asks
rank 1 alone. Type `p x`, `n`, `1 p x + y` and `c`.""",
    ),
    (
        "py",
        """%%spmd
x = 10 * rank
breakpoint()
y = 7
total = comm.all_reduce(float(x + y))
print("total", total)""",
    ),
    (
        "md",
        """One rank can stop alone. The others wait for it in the collective that comes next, beyond
any deadline; `n` steps this rank into it. Type `n`, `n` and `c`.""",
    ),
    (
        "py",
        """%%spmd --break 3 --break-rank 2 --timeout 60
loss = float(rank)
mean = comm.all_reduce(loss) / world_size
print("mean", mean)""",
    ),
    (
        "md",
        """Where does it become wrong? `--break-if` stops at the first statement where that is true.
Type `p step, value` and `q`: quitting lets the ranks go on.""",
    ),
    (
        "py",
        """%%spmd --break-if "value > 20"
value = 1.0
for step in range(10):
    value *= 1 + rank
print("end", value)""",
    ),
    (
        "md",
        """With `%dist_debug --on-error` a rank that raises keeps its frames until you have seen
enough, and its peers wait. Type `p a, b` and `c`.""",
    ),
    ("py", "%dist_debug --on-error"),
    (
        "raises",
        """%%spmd
def ratio(a):
    b = a - 2
    return 1 / b


if rank == 2:
    ratio(rank)
comm.barrier()""",
    ),
    ("py", "%dist_debug --off"),
]
"""To the end of its first half; `profiles.py` has the second."""

END = [("py", "%dist_stop")]

TYPED = {
    "x = 10 * rank": ["p x", "n", "n", "1 p x + y", "c"],
    "loss = float(rank)": ["n", "n", "c"],
    "value = 1.0": ["p step, value", "q"],
    "def ratio(a):": ["p a, b", "c"],
}
"""What a person types in the cell that has this line."""
