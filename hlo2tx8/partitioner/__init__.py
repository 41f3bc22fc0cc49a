"""A computation as functions of one element: which instructions are computed together, over which indices."""
