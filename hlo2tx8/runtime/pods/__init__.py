"""Pods: several processes that run one program, each its own chips."""
