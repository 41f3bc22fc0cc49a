"""New HLO in front of an op: single ops (Expansion), formulas (Term), bodies of reduces and sorts, bodies on whole arrays."""
