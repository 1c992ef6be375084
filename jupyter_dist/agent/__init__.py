"""One per host: starts engines through the zygote, sees them end, sends signals, samples."""
