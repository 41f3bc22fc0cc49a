"""Factorisations of matrices, written in jax: what jax's linear algebra is lowered to where a device has no LAPACK."""
