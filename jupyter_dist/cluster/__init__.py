"""The notebook's side of a cluster: the public Python API."""
