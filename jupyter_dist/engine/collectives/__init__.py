"""What ranks do together: control collectives, the communicator, and what frameworks need."""
