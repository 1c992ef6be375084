"""Progress bars of ranks, folded into one."""
