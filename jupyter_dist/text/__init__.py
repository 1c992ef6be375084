"""How values read: lists, names and sentences as users see them; nothing here knows a cluster."""
