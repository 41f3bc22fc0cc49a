"""Tools for those who work on hlo2tx8 itself; nothing in the package imports them, and users do not need them."""
