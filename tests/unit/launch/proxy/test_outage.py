from jupyter_dist.launch.proxy.outage import Outage, outage_path, read_outage, tell_outage


def test_an_outage_is_told_beside_the_log_until_it_is_over(tmp_path):
    log_path = tmp_path / "proxy.log"
    assert read_outage(str(log_path)) is None
    tell_outage(log_path, Outage(1.0, "refused"))
    tell_outage(log_path, Outage(1.0, "no route"))
    assert read_outage(str(log_path)) == Outage(1.0, "no route")
    outage_path(log_path).write_bytes(b"half")
    assert read_outage(str(log_path)) is None
    outage_path(log_path).unlink()
    assert list(tmp_path.iterdir()) == []
