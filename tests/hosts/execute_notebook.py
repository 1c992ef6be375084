"""Execute a notebook on three hosts of a lab, described in the cluster.toml beside it.

python tests/hosts/execute_notebook.py notebooks/02_many_hosts.ipynb notebooks/02_many_hosts.ipynb
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def execute(lab, folder, notebook, target, **options):
    """Run it in this folder; gives the CompletedProcess of notebooks/execute.py."""
    from tests.hosts.open_lab import write_spec

    write_spec(lab).replace(Path(folder) / "cluster.toml")
    words = [sys.executable, ROOT / "notebooks" / "execute.py", notebook, target]
    return subprocess.run(words, cwd=folder, check=False, **options)


def main():
    """Build three hosts, execute, remove them."""
    sys.path.insert(0, str(ROOT))
    from tests.hosts.lab import HostsLab

    notebook, target = (Path(path).resolve() for path in sys.argv[1:])
    with (
        tempfile.TemporaryDirectory(prefix="hosts-lab-") as folder,
        HostsLab(("nodeA", "nodeB", "nodeC"), folder) as lab,
    ):
        return execute(lab, folder, notebook, target).returncode


if __name__ == "__main__":
    sys.exit(main())
