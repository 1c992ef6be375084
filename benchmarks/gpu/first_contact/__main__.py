"""First contact with a GPU: run facts, tests and benchmarks, write docs/explanation/gpu.md's table.

python benchmarks/gpu/first_contact [--steps all|1-2|none] [--minutes 26] [--folder out/gpu]

What a run finds is kept in the folder, so that steps can be run one after the other, by several
calls. A run that fails or takes too long costs none of the others. Needs only Python's own library:
what else is missing comes from the kit (`make gpu-kit`), if that is there.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from contact import main

main()
