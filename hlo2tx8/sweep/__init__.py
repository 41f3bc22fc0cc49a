"""Many tasks on many processes, and what if the chip were another: sweeps and searches over chips."""
