"""Debuggers that speak the Debug Adapter Protocol: debugpy's pydevd in a rank, while asked for."""
