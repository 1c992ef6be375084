"""From arguments, host files and spec files to the specification of a cluster."""
