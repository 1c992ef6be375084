"""Hosts that are odd, but good enough: the start goes well."""

import shutil
import subprocess
import time

import pytest

from jupyter_dist.model.spec.cluster_spec import HostSpec
from tests.matrix import only

from .clusters import values

NOISE = """
echo 'welcome to this host'
echo 'all is lost' >&2
yes 'the message of the day' | head -5000
printf 'a line without an end'
printf 'and one on stderr' >&2
"""
CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
static int (*real)(clockid_t, struct timespec *);
int clock_gettime(clockid_t which, struct timespec *now) {
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(which, now);
    if (!failed && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) now->tv_sec += OFFSET;
    return failed;
}
time_t time(time_t *there) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (there) *there = now.tv_sec;
    return now.tv_sec;
}
int gettimeofday(struct timeval *restrict there, void *restrict zone) {
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    there->tv_sec = now.tv_sec;
    there->tv_usec = now.tv_nsec / 1000;
    return failed;
}
"""


@pytest.mark.parametrize("setup", only([()], [(), ("export SET=1",)]), ids=["shell", "login shell"])
def test_a_profile_that_makes_noise_does_no_harm(start, lab, setup):
    for host, user in (("nodeA", "root"), ("nodeB", "home/alice")):
        for file in (".bashrc", ".profile"):
            lab.write(host, f"/{user}/{file}", NOISE)
    cluster = start([HostSpec("nodeA", 1, setup=setup), HostSpec("nodeB", 1, "ssh", "alice")])
    assert values(cluster.run("int(comm.all_reduce(rank + 1))")) == ["3", "3"]


@pytest.mark.slow
def test_a_home_that_nobody_can_write_to_does_no_harm(start, lab):
    for host in ("nodeA", "nodeB"):
        lab.make_read_only_home(host)
    cluster = start("nodeA:1,alice@nodeB:1", cwd="/tmp")
    assert values(cluster.run("int(comm.all_reduce(rank + 1))")) == ["3", "3"]
    result = cluster.run("open('new', 'w')")
    assert [rank.status for rank in result] == ["ok", "ok"]


@pytest.mark.parametrize("offset_s", only([-3600], [-3600, 3600]), ids=["late", "early"])
def test_a_clock_that_is_off_by_an_hour_does_no_harm(start, lab, offset_s):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("setting back the clock of one host needs a C compiler")
    library = lab.path("nodeA", "/root/clock.so")
    words = [compiler, "-shared", "-fPIC", f"-DOFFSET={offset_s}", "-xc", "-", "-o", library]
    subprocess.run([*words, "-ldl"], input=CLOCK, text=True, check=True)
    odd = HostSpec("nodeA", 1, setup=("export LD_PRELOAD=/root/clock.so",))
    cluster = start([odd, HostSpec("nodeB", 1)])
    there, other = (float(text) for text in values(cluster.run("import time\ntime.time()")))
    assert abs(other - time.time()) < 60
    assert abs(there - other - offset_s) < 60
    assert values(cluster.run("int(comm.all_reduce(rank + 1))")) == ["3", "3"]
