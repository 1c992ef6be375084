"""Makes topology_2x8_hgx.json again, after a change of hgx_h200.json or of what a host tells."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "unit"))

from fakes.recorded_topology import draw, two_hgx, write  # noqa: E402  (the path comes first)

if __name__ == "__main__":
    (HERE / "topology_2x8_hgx.json").write_bytes(write(draw(two_hgx())))
