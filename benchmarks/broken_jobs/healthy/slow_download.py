# /// job
# healthy = "rank 0 downloads for 6 s at 2 pieces a second"
# ///
import socket
import threading
import time

if rank == 0:
    server, client = socket.socketpair()

    def serve():
        for _ in range(12):
            time.sleep(0.5)
            server.send(bytes(1024))
        server.close()

    threading.Thread(target=serve, daemon=True).start()
    while client.recv(4096):
        pass
comm.barrier()
