"""What each scheduler says of a job, read and judged."""
