"""What tests of all orchestrators ask of a cluster."""

import pytest

from jupyter_dist import Cluster
from jupyter_dist.errors import StartFailed

SUM = "import numpy as np\nint(comm.all_reduce(np.array(rank + 1)))"


def refusal(begin, **options):
    """Return why a cluster does not start with these options; nothing of it is left."""
    with pytest.raises(StartFailed) as caught:
        begin(**options)
    assert Cluster.running() == []
    return str(caught.value)
