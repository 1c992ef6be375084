from jupyter_dist.protocol.messages import ErrorInfo


def test_an_error_reads_like_python_writes_it():
    assert str(ErrorInfo("KeyError", "'a'")) == "KeyError: 'a'"
    assert str(ErrorInfo("AssertionError", "")) == "AssertionError"
