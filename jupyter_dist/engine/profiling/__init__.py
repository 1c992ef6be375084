"""What a rank does with its time and memory while its cells run; loaded with the first profile."""
