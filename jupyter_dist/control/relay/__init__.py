"""The relay of a host: its ranks' messages travel together, over one connection."""
