"""From encoded kernels and @main's launches to one rolled program."""

from hlo2tx8.link.program import link, link_alone

__all__ = ["link", "link_alone"]
