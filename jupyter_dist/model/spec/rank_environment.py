"""Variables that ranks have from before they are born."""

HASH_SEED_VARIABLE = "PYTHONHASHSEED"
HASH_SEED = "0"
"""The same for all ranks on all hosts: sets then have one order everywhere."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
