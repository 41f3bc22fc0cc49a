"""What work costs on the chip, which tile does it, and in how many steps."""
