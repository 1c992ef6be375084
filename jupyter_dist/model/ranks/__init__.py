"""What ranks do and leave behind: calls, stacks, agreements, crashes, and the files of cells."""
