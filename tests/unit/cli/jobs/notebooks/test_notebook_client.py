"""What nbclient is given to hear of cells that have ended."""

import asyncio
from types import SimpleNamespace

import pytest
from nbclient.exceptions import CellExecutionComplete
from nbformat.v4 import new_code_cell, new_notebook

from jupyter_dist.cli.jobs.notebooks.notebook_client import JobClient
from jupyter_dist.cluster.jobs.job_events import EVENT, TARGET, SpmdBegan, SpmdEnded, write_event
from jupyter_dist.options.output_options import OutputStyle

BEGAN = SpmdBegan("demo", (0, 1), None, OutputStyle(), is_background=True)
END = SpmdEnded(0, "")


def message(kind, **content):
    """What the kernel says of its first request."""
    return {
        "msg_type": kind,
        "parent_header": {"msg_id": "first"},
        "header": {"msg_type": kind},
        "content": {"data": {}, **content},
    }


def event(told):
    return message("comm_msg", comm_id="a", data={EVENT: write_event(told)})


class Kernel:
    """Its manager, its client and the channel of that in one: it says what it is to say."""

    def __init__(self, *said):
        self._said = [*said]
        self.iopub_channel = self

    def client(self):
        return self

    def start_channels(self):
        pass

    async def wait_for_ready(self, **_how):
        pass

    async def get_msg(self, **_how):
        return self._said.pop(0)


class Show:
    """Remembers what cells in the background have said."""

    def __init__(self):
        self.told = []

    def begin_background(self, event):
        return SimpleNamespace(take_event=self.told.append)

    def take_event(self, event):
        raise AssertionError(f"{event} is of a cell in the background")


def test_what_a_cell_says_before_the_next_has_begun_is_heard():
    notebook, show = new_notebook(cells=[new_code_cell("x")]), Show()
    kernel = Kernel(event(END), message("stream", name="stdout", text="late"))
    heard = []
    how = {"km": kernel, "record_timing": False}
    client = JobClient(notebook, show, on_message=lambda *said: heard.append(said), **how)
    client.clear_before_next_output = False  # as where nbclient begins a cell
    cell = notebook.cells[0]

    async def run():
        line = (await client.async_start_new_kernel_client()).iopub_channel
        opened = message("comm_open", comm_id="a", target_name=TARGET)
        for said in (opened, event(BEGAN)):
            client.process_message(said, cell, 0)
        with pytest.raises(CellExecutionComplete):
            client.process_message(message("status", execution_state="idle"), cell, 0)
        for _ in range(2):  # as nbclient asks for the next cell, whose messages these are not
            await line.get_msg(timeout=None)

    asyncio.run(run())
    assert show.told == [END]
    assert heard[-1][1]["text"] == cell.outputs[-1].text == "late"
