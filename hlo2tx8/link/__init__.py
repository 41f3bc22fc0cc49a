"""From encoded kernels and @main's launches to one rolled program, in which equal runs of launches are a loop."""

from hlo2tx8.link.program import link, link_alone

__all__ = ["link", "link_alone"]
