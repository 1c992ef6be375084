"""A client of the Debug Adapter Protocol, as an editor is one."""

import json
import queue
import socket
import threading
from contextlib import suppress

from jupyter_dist.protocol.dap import MessageReader, frame

PATIENCE_S = 30


class DapConversation:
    """What a client says and hears; what comes out of turn waits until it is asked for."""

    def __init__(self):
        self._news, self._kept, self._number = queue.SimpleQueue(), [], 0

    def take(self, content):
        """Take in the JSON of a message; None: nothing more comes."""
        self._news.put({"event": "end"} if content is None else json.loads(content))

    def say(self, command, **arguments):
        self._number += 1
        request = {
            "seq": self._number,
            "type": "request",
            "command": command,
            "arguments": arguments,
        }
        self.send(json.dumps(request))

    def hear(self, what):
        """Return the next message with this event or command; fail where the end comes first."""
        while True:
            found = [
                each for each in self._kept if what in (each.get("event"), each.get("command"))
            ]
            if found:
                self._kept.remove(found[0])
                return found[0]
            self._kept.append(self._news.get(timeout=PATIENCE_S))
            assert what == "end" or self._kept[-1].get("event") != "end", self._kept

    def ask(self, command, **arguments):
        """Return the body of the answer; fail where there is none."""
        self.say(command, **arguments)
        answer = self.hear(command)
        assert answer["success"], answer
        return answer.get("body")

    def greet(self, **capabilities):
        return self.ask("initialize", adapterID="test", pathFormat="path", **capabilities)

    def attach(self, **arguments):
        """Attach as VS Code does; give the answer, as soon as it is there."""
        self.greet(supportsStartDebuggingRequest=True)
        self.say("attach", justMyCode=False, **arguments)
        answer = self.hear("attach")
        if answer["success"]:
            self.hear("initialized")
            self.ask("configurationDone")
        return answer

    def stopped(self):
        """Wait for the next stop; give the thread and its frames."""
        thread = self.hear("stopped")["body"]["threadId"]
        return thread, self.ask("stackTrace", threadId=thread)["stackFrames"]

    def evaluate(self, expression, frame_id):
        body = self.ask("evaluate", expression=expression, frameId=frame_id, context="watch")
        return body["result"]

    def leave(self):
        """Disconnect, and wait until the debugger is out of the rank."""
        self.ask("disconnect", terminateDebuggee=True)
        self.hear("end")


class DapClient(DapConversation):
    """Connects to an address."""

    def __init__(self, address):
        super().__init__()
        self._socket = socket.create_connection((address.host, address.port))
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def send(self, text):
        """Send the JSON of a message."""
        self._socket.sendall(frame(text.encode()))

    def _read(self):
        reader = MessageReader()
        with suppress(OSError):
            while data := self._socket.recv(1 << 16):
                for content in reader.take(data):
                    self.take(content)
        self.take(None)

    def vanish(self):
        """Go without a word."""
        self._socket.shutdown(socket.SHUT_RDWR)

    def close(self):
        with suppress(OSError):
            self.vanish()
        self._reading.join()
        self._socket.close()
