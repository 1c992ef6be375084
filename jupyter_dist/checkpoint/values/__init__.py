"""What is saved: trees of values, and arrays of all libraries as blocks of host memory."""
