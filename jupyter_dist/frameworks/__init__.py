"""What each framework needs so that its own zero-argument initialisation works on a rank."""
