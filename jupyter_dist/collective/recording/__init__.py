"""What a rank is inside of, in a file that others read even when it is stuck or dead."""
