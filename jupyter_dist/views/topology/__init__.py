"""The live picture of a cluster, and the report of one rank that it opens."""
