"""ipyparallel on our engines: the bridge, and nothing else here imports it."""
