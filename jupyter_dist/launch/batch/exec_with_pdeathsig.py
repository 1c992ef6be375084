"""Becomes another program that ends with its parent.

python -P -m jupyter_dist.launch.batch.exec_with_pdeathsig PARENT_PID PROGRAM ARGUMENT…

The request survives the change of program, and the program has time to clean up on other nodes.
"""

import os
import signal
import sys

from jupyter_dist.launch.processes.process_life import die_with_parent

if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]), signal.SIGTERM)
    try:
        os.execvp(sys.argv[2], sys.argv[2:])
    except OSError as error:
        sys.exit(f"{sys.argv[2]} cannot be run: {error.strerror}")
