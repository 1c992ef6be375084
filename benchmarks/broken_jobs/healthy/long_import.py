# /// job
# healthy = "an import of rank 2 takes 6 s"
# ///
import sys
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    sys.path.insert(0, folder)
    Path(folder, "large_library.py").write_text("import time\ntime.sleep(6)\n")
    if rank == 2:
        import large_library
comm.barrier()
