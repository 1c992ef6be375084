"""How much CPU time a busy rank needs for the same work while it is profiled.

With --native also tells what py-spy uses: for at least that long it stops the rank.

python benchmarks/sampling_cost.py [--native]
"""

import sys
from statistics import median

from jupyter_dist import Cluster

ROUNDS = 5
WORK = """
import time
def step(n):
    total = 0
    for i in range(n):
        total += i * i
    return total
begin = time.process_time()
for _ in range(400):
    step(100_000)
time.process_time() - begin
"""


def main() -> None:
    """Measure pairs, one beside the other, and print the median of their ratios."""
    ratios: list[float] = []
    shares: list[float] = []
    with Cluster.start("localhost:2") as cluster:

        def cpu_s() -> float:
            return median(float(rank.value_repr or 0) for rank in cluster.run(WORK))

        cpu_s()
        for number in range(ROUNDS):
            plain_s = cpu_s()
            with cluster.begin_profile(native="--native" in sys.argv) as profiling:
                profiled_s = cpu_s()
            profile = profiling.end()
            cost_s = max(own.cost_ns for own in profile.ranks.values()) / 1e9
            shares.append(cost_s / profile.window.seconds)
            ratios.append(profiled_s / plain_s)
            sys.stdout.write(f"{number}: {plain_s:.3f} s, profiled {profiled_s:.3f} s\n")
    sys.stdout.write(f"CPU time while profiled: {median(ratios):.4f} of that before\n")
    sys.stdout.write(f"CPU time of what takes samples: {median(shares):.2%} of a processor\n")
    sys.stdout.writelines(f"{note}\n" for note in profile.notes)


if __name__ == "__main__":
    main()
