"""Structured attributes of StableHLO from the text MLIR prints: `#stablehlo.dot<lhs_contracting_dimensions = [1], ...>`."""

import re
from typing import Any

from hlo2tx8.dialects.hlo import Struct

_HEAD = re.compile(r"#(?:stablehlo|chlo|mhlo)\.(\w+)<(.*)>$", re.DOTALL)
_FIELD = re.compile(r"(\w+)\s*=\s*(\[[^\]]*\]|-?\w+)")
# Fields the printer leaves out where they are empty.
_EMPTY: dict[str, tuple[str, ...]] = {
    "dot": (
        "lhs_batching_dimensions",
        "rhs_batching_dimensions",
        "lhs_contracting_dimensions",
        "rhs_contracting_dimensions",
    ),
    "gather": ("offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims", "start_index_map"),
    "scatter": (
        "update_window_dims",
        "inserted_window_dims",
        "input_batching_dims",
        "scatter_indices_batching_dims",
        "scatter_dims_to_operand_dims",
    ),
}


def parse_struct(text: str) -> Struct:
    """The fields of a structured attribute; ValueError if the text is none."""
    match = _HEAD.match(text.strip())
    if match is None:
        raise ValueError(f"no structured attribute: {text}")
    kind, body = match.groups()
    if kind == "conv":
        return Struct(kind, _conv_fields(body), text)
    fields: dict[str, Any] = dict.fromkeys(_EMPTY.get(kind, ()), ())
    if kind in ("gather", "scatter"):
        fields["index_vector_dim"] = 0
    fields |= {name: _value(value) for name, value in _FIELD.findall(body)}
    return Struct(kind, tuple(fields.items()), text)


def _value(text: str) -> Any:
    if text.startswith("["):
        return tuple(int(v) for v in text[1:-1].split(",") if v.strip())
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.lstrip("-").isdigit() else text


def _conv_fields(body: str) -> tuple[tuple[str, Any], ...]:
    """`[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`."""
    sides = re.findall(r"\[([^\]]*)\]", body)
    if len(sides) != 3:
        raise ValueError(f"no convolution dimension numbers: {body}")
    fields: dict[str, Any] = {}
    names = ("input", "kernel", "output")
    letters = ({"b": "batch", "f": "feature"}, {"i": "input_feature", "o": "output_feature"}, {"b": "batch", "f": "feature"})
    for side, name, meaning in zip(sides, names, letters, strict=True):
        parts = [p.strip() for p in side.split(",")]
        for letter, word in meaning.items():
            fields[f"{name}_{word}_dimension"] = parts.index(letter)
        spatial = sorted((int(p), i) for i, p in enumerate(parts) if p.isdigit())
        fields[f"{name}_spatial_dimensions"] = tuple(i for _, i in spatial)
    return tuple(fields.items())
