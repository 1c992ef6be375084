"""Programs of JAX that span ranks: each launch recorded, refused or broken off."""
