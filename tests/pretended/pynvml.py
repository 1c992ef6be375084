"""NVML of a machine with one GPU and no driver for it: put this folder into PYTHONPATH."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "unit"))
from fakes.recorded_nvml import RecordedNvml, read_record

record = read_record("hgx_h200")
record["gpus"] = record["gpus"][:1]
sys.modules[__name__] = RecordedNvml(record)
