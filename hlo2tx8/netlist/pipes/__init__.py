"""Below the graphs of a netlist: buffers and pipes between cores, streams that move tiles through them, and blobs that say so."""
