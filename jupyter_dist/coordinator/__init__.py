"""One per cluster, outlives the kernel: rendezvous, health, cells, output log."""
