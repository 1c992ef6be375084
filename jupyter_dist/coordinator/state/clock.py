"""When the loop is to look at the clock again: each part that needs that says so for itself."""

import math

NEVER = math.inf
"""Not before something happens, or the next heartbeat is due."""
TICK_S = 0.05
"""While something goes on, and where no event tells of it, the clock is looked at so often."""
