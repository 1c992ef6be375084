# /// job
# cause = "an import of rank 1 waits for a licence server that does not answer"
# ranks = [1]
# at = ["import licensed_solver"]
# says = "network|recv|licensed_solver"
# ///
import socket
import sys
import tempfile
from pathlib import Path

server = socket.create_server(("127.0.0.1", 0))  # accepts, and never answers
with tempfile.TemporaryDirectory() as folder:
    sys.path.insert(0, folder)
    connect = f"socket.create_connection({server.getsockname()}).recv(1)"
    Path(folder, "licensed_solver.py").write_text(f"import socket\n{connect}\n")
    if rank == 1:
        import licensed_solver
comm.barrier()
