"""What holds for all tests."""

import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So shells start what runs in the background; all processes of the tests would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# So that clusters name who drives them alike in each worker of pytest-xdist, which has no name.
sys.argv[0] = "pytest"
