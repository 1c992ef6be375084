"""Files in which clusters are found: read carefully, written whole, and never by two at a time."""
