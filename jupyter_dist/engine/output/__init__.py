"""What a rank prints and shows: captured as whole lines, progress bars as numbers."""
