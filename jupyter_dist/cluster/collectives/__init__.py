"""The last calls of all ranks: side by side as a table, and over time as a trace."""
