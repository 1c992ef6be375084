"""What there is: frozen values and pure functions; nothing here does input or output."""
