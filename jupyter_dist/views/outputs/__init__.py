"""What ranks have said, put together: lines, groups of ranks, blocks of rows."""
