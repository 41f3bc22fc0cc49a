"""The chip: its description, its instruction set, and the emulator that runs and times programs."""
