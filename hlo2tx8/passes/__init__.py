"""Rewrites of HLO: what becomes simpler, and what becomes operations that the emitters know."""
