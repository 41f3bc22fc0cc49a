"""Ops of dialect `hlo` that convert between elements of less than a byte's width and the bytes that hold them.

%1 = "hlo.to_bits"(%0) : (tensor<4xi4>) -> tensor<4xui8>
"""

from hlo2tx8.dialects.hlo_form import HloForm, declare

ToBitsOp: type[HloForm] = declare("hlo", "to_bits", ())
"""The byte of each element as ui8: its bits from the lowest on; above them, anything."""

FromBitsOp: type[HloForm] = declare("hlo", "from_bits", ())
"""The inverse; what is above the bits of an element must be 0."""
