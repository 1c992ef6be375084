"""Code of this machine, compared with the hosts and copied to them."""
