"""The definition: what every instruction does to memory, in numpy."""
