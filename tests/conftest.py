"""What holds for all tests."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So shells start what runs in the background; all processes of the tests would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
