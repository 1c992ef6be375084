"""What there is: hosts, their addresses and interfaces, the ranks on them, and how a start goes."""
