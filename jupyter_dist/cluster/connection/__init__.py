"""The line to a coordinator: started, connected, and asked without ever waiting in silence."""
