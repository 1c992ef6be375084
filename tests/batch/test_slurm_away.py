"""Slurm's controller goes away, and a job that nobody can cancel is not kept quiet."""

from pathlib import Path

import pytest


@pytest.mark.slow
def test_a_job_that_could_not_be_cancelled_is_told_with_what_ends_it(slurm, start, monkeypatch):
    conf = slurm.shared / "login.conf"
    text = Path(slurm.env["SLURM_CONF"]).read_text()
    conf.write_text(text)
    monkeypatch.setenv("SLURM_CONF", str(conf))
    cluster = start()
    job = slurm.only_job()
    conf.write_text(text.replace("SlurmctldPort=", "MessageTimeout=2\nSlurmctldPort=1#"))
    told = rf"Slurm job {job} .*\(scancel.*\).*: scancel {job}$"
    with pytest.warns(UserWarning, match=told):
        cluster.stop()
    conf.write_text(text)
    slurm.scancel(job)
