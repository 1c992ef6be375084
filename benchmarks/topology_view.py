"""Measure what the topology view costs a browser: script per update, share of a core, bytes.

512 made-up ranks on 64 hosts whose numbers all change, 4 times a second, in headless Chromium.
A large cluster is drawn with pauses, so that a drawing's script is timed at 1 Hz, where none waits:

    python benchmarks/topology_view.py [--ranks 512] [--seconds 20] [--json out/topology_view.json]
"""

import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import psutil
from figures import read_options, write_json
from machine import describe_machine
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))

from jupyter_dist.views.topology.script_modules import joined_modules, joined_styles
from tests.browser.topologies import many_with_gpus

HZ = 4
HZ_WITHOUT_WAITING = 1
PAGE = """<!doctype html><meta charset="utf-8"><style>%s</style><div id="place"></div>
<script type="module">%s</script>"""
# The door is a default export, which an inline module cannot pass on on its own.
START = """
const heard = [];
const model = { get: () => '', send: () => {}, off: () => {},
  on: (event, call) => event === 'msg:custom' && heard.push(call) };
const { initialize, render } = door();
initialize({ model });
render({ model, el: document.getElementById('place') });
const told = (change) => ({ base: 0, number: 1, passed_s: 0, change });
window.show = (state) => heard.forEach((call) => call({ kind: 'change', told: told(state) }));
"""
RUN = """async ({states, hz, seconds}) => {
  const parsed = JSON.parse(states);
  const times = [];
  for (let tick = 0; tick < hz * seconds; tick++) {
    // What the update before has left to lay out is not script of this one.
    document.body.getBoundingClientRect();
    const start = performance.now();
    show(parsed[tick % parsed.length]);
    times.push(performance.now() - start);
    const rest = 1000 / hz - (performance.now() - start);
    await new Promise((done) => setTimeout(done, Math.max(0, rest)));
  }
  return times;
}"""


def page_text() -> str:
    door = joined_modules().replace("export default ", "const door = ", 1)
    return PAGE % (joined_styles(), door + START)


def metrics(session: Any) -> dict[str, float]:
    got = session.send("Performance.getMetrics")["metrics"]
    return {each["name"]: each["value"] for each in got}


def browser_cpu_s() -> tuple[float, float]:
    """CPU time of the page's own process, and of all of Chromium's, painting included.

    Other programs on the machine do not count into it, as they would into what the page measures.
    """
    page = everything = 0.0
    for process in psutil.Process().children(recursive=True):
        if "chrom" not in process.name():
            continue
        times = process.cpu_times()
        everything += times.user + times.system
        if "--type=renderer" in process.cmdline():
            page += times.user + times.system
    return page, everything


def measure(page: Any, session: Any, ranks: int, seconds: int) -> dict[str, Any]:
    """Tell the script of a drawing (ms), and what share of a core updates at 4 Hz take (%)."""
    states = msgspec.json.encode([many_with_gpus(ranks, tick) for tick in range(24)]).decode()
    page.evaluate("text => show(JSON.parse(text)[0])", states)
    each_drawn = {"states": states, "hz": HZ_WITHOUT_WAITING, "seconds": seconds}
    times_ms = page.evaluate(RUN, each_drawn)[1:]
    session.send("Performance.enable")
    before, cpu_before, start = metrics(session), browser_cpu_s(), time.perf_counter()
    page.evaluate(RUN, {"states": states, "hz": HZ, "seconds": seconds})
    wall_s = time.perf_counter() - start
    page_s, all_s = (now - then for now, then in zip(browser_cpu_s(), cpu_before, strict=True))
    after = metrics(session)
    used = {name: after[name] - before[name] for name in after}
    return {
        "ranks": ranks,
        "updates_a_second": HZ,
        "drawings_timed": len(times_ms),
        "script_ms_median": round(statistics.median(times_ms), 2),
        "script_ms_p95": round(statistics.quantiles(times_ms, n=20)[-1], 2),
        "page_cpu_percent_of_a_core": round(100 * page_s / wall_s, 1),
        "all_of_chromium_cpu_percent_of_a_core": round(100 * all_s / wall_s, 1),
        "page_tasks_percent_of_the_time": round(100 * used["TaskDuration"] / wall_s, 1),
        "style_and_layout_percent_of_the_time": round(
            100 * (used["RecalcStyleDuration"] + used["LayoutDuration"]) / wall_s, 1
        ),
    }


def main() -> None:
    chromium = os.environ.get("JD_CHROMIUM", "/usr/bin/chromium")
    options = read_options(__doc__, ranks=512, seconds=20, chromium=chromium)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.chromium, headless=True)
        page = browser.new_page(viewport={"width": 1000, "height": 1000})
        page.set_content(page_text())
        page.wait_for_function("Boolean(window.show)")
        session = page.context.new_cdp_session(page)
        result = measure(page, session, options.ranks, options.seconds)
        result["chromium"] = browser.version
        browser.close()
    result["script_kb"] = round(len(joined_modules().encode()) / 1000, 1)
    result["styles_kb"] = round(len(joined_styles().encode()) / 1000, 1)
    result["machine"] = describe_machine()
    result["load_at_the_end"] = round(psutil.getloadavg()[0], 1)
    print(json.dumps(result, indent=2))
    write_json(options, result)


if __name__ == "__main__":
    main()
