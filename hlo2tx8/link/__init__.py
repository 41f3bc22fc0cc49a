"""From encoded kernels and @main's launches to one rolled program."""

from hlo2tx8.link.linker import link

__all__ = ["link"]
