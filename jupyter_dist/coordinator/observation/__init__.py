"""What is known of running ranks: asked, recorded, and judged as a hang or not."""
