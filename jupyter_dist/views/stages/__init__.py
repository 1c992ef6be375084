"""Things that are waited for, with their stages: a start, a recovery, a transfer."""
