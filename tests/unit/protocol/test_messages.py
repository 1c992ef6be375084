from jupyter_dist.protocol.messages import ErrorInfo


def test_an_error_reads_like_python_writes_it():
    assert str(ErrorInfo("ZeroDivisionError", "division by zero")) == (
        "ZeroDivisionError: division by zero"
    )
    assert str(ErrorInfo("AssertionError", "")) == "AssertionError"
