"""From LOOPS to encoded kernels: loops, vectors, instructions, DMA and scratchpad addresses."""
