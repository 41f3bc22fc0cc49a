"""Op classes of `chlo`: names and attributes as the specification has them; jaxlib's verifier checks types."""

from xdsl.ir import Dialect

from hlo2tx8.dialects.hlo_form import HloForm, declare

# (name, attributes); operands, results and regions are lists.
DECLARATIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("acos", ()),
    ("acosh", ()),
    ("_asin_acos_kernel", ()),
    ("asin", ()),
    ("asinh", ()),
    ("atan", ()),
    ("atanh", ()),
    ("bessel_i1e", ()),
    ("broadcast_add", ("broadcast_dimensions",)),
    ("broadcast_and", ("broadcast_dimensions",)),
    ("broadcast_atan2", ("broadcast_dimensions",)),
    ("broadcast_compare", ("broadcast_dimensions", "comparison_direction", "compare_type")),
    ("broadcast_complex", ("broadcast_dimensions",)),
    ("broadcast_divide", ("broadcast_dimensions",)),
    ("broadcast_maximum", ("broadcast_dimensions",)),
    ("broadcast_minimum", ("broadcast_dimensions",)),
    ("broadcast_multiply", ("broadcast_dimensions",)),
    ("broadcast_next_after", ("broadcast_dimensions",)),
    ("broadcast_or", ("broadcast_dimensions",)),
    ("broadcast_polygamma", ("broadcast_dimensions",)),
    ("broadcast_power", ("broadcast_dimensions",)),
    ("broadcast_remainder", ("broadcast_dimensions",)),
    ("broadcast_select", ()),
    ("broadcast_shift_left", ("broadcast_dimensions",)),
    ("broadcast_shift_right_arithmetic", ("broadcast_dimensions",)),
    ("broadcast_shift_right_logical", ("broadcast_dimensions",)),
    ("broadcast_subtract", ("broadcast_dimensions",)),
    ("broadcast_xor", ("broadcast_dimensions",)),
    ("broadcast_zeta", ("broadcast_dimensions",)),
    ("conj", ()),
    ("constant_like", ("value",)),
    ("constant", ("value",)),
    ("cosh", ()),
    ("digamma", ()),
    ("erf_inv", ()),
    ("erf", ()),
    ("erfc", ()),
    ("is_inf", ()),
    ("is_neg_inf", ()),
    ("is_pos_inf", ()),
    ("lgamma", ()),
    ("mulhi", ()),
    ("next_after", ()),
    ("polygamma", ()),
    ("ragged_dot", ("ragged_dot_dimension_numbers", "precision_config")),
    ("scan", ("dimension", "scan_dim_size", "is_reverse", "is_associative", "operandSegmentSizes", "resultSegmentSizes")),
    ("sinh", ()),
    ("square", ()),
    ("tan", ()),
    ("top_k", ("k",)),
    ("zeta", ()),
)

OPS: dict[str, type[HloForm]] = {name: declare("chlo", name, attributes) for name, attributes in DECLARATIONS}
"""Op classes by name without the dialect."""

Chlo = Dialect("chlo", list(OPS.values()), [])
