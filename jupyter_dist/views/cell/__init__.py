"""One cell as it is seen: live, for good, as HTML and as plain text."""
