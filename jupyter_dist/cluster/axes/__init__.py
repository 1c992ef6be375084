"""Which ranks are meant: by host, and by coordinates along axes, which a mesh may name."""
