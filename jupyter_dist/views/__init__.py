"""What a person sees: cell output and the topology."""
