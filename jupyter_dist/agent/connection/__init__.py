"""The way to the coordinator: every address tried, then one stream that survives resets."""
