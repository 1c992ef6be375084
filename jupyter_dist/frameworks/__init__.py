"""What each framework needs so that its own zero-argument init works, and a death kills nobody."""
