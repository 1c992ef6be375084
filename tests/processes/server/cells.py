"""Cells that run until a test has seen enough, and messages about them."""

WAITING = """import time
print('begun')
try: time.sleep(60)
except KeyboardInterrupt: print(time.time())"""


def label_is(label, **more):
    """Fits a message about this cell, with these other values."""
    return lambda m: m["label"] == label and all(m[key] == more[key] for key in more)
