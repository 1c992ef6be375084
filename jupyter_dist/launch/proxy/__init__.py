"""A coordinator on another machine as clients here find it: one process, which keeps one ssh."""
