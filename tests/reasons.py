"""Why tests are skipped where something is not installed."""

WITHOUT_TORCH = "torch is no requirement of the tests: its wheel on PyPI brings gigabytes of CUDA"
