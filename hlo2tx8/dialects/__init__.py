"""The operations of every level as xDSL classes; those of level SCHEDULED are the instructions in `device.isa`."""
