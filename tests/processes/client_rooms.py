"""Import all that a client, or the coordinator that it starts, may load; then work with a cluster.

python client_rooms.py CLUSTER
"""

import importlib
import pkgutil
import sys

import jupyter_dist

ROOMS = "magics cli server mcp views cluster coordinator control launch protocol options model"
OF_HOSTS = {
    "jupyter_dist.model.ranks.stack_thread": "a signal between an agent and its ranks",
    "jupyter_dist.launch.orchestrators.ray_nodes": "Ray, in a process of its own",
}


def import_rooms():
    for room in ROOMS.split():
        package = importlib.import_module(f"jupyter_dist.{room}")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__") and found.name not in OF_HOSTS:
                importlib.import_module(found.name)


import_rooms()
cluster = jupyter_dist.Cluster.attach(sys.argv[1])
result = cluster.run("print('said')\nint(comm.all_reduce(rank))")
print([rank.value_repr for rank in result])
cluster.push({"large": bytes(1 << 22)})
print([len(got) for got in cluster.pull("large").values()])
cluster.detach()
