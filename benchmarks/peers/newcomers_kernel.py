"""The first cells of a newcomer, in a kernel of the Python that runs this; seconds as JSON."""

import json
import sys
import time

from notebook_kernel import SUCCESS, NotebookKernel


def main() -> None:
    """Read cells from stdin, write what each step took; ends with a word where one fails."""
    asked = json.load(sys.stdin)
    began_s = time.time()
    kernel = NotebookKernel()
    took_s = {"kernel": time.time() - began_s}
    try:
        for name, cell in asked["cells"].items():
            ran = kernel.run(cell)
            if ran.ended_as != SUCCESS:
                sys.exit(f"{cell}: {ran.ended_as}\n{ran.text}")
            took_s[name] = ran.seconds
        until_s = ran.seconds_until(asked["grouped"])
        if until_s is None:
            sys.exit(f"{cell}: no output of all ranks together in\n{ran.text}")
        took_s[name] = until_s
    finally:
        kernel.run("%dist_stop")
        kernel.close()
    print(json.dumps(took_s))


if __name__ == "__main__":
    main()
