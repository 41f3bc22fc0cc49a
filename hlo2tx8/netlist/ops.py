"""The op types: a row for each says how many inputs it has and which attributes; a row for each attribute, how it is read."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from hlo2tx8.netlist.fields import (
    NUMBER,
    Place,
    Reader,
    boolean,
    choice,
    list_of,
    means,
    nonempty,
    number,
    pairs_of,
    refuse_name,
    several,
    whole,
)
from hlo2tx8.netlist.tree import Node

Family: TypeAlias = Literal["copy", "sfpu", "binary", "quant", "matmul", "reduce", "other"]


@means({"type": "object", "patternProperties": {r"^input_\d+$": {"type": "integer", "minimum": 1}}, "additionalProperties": False})
def by_input(node: Node, place: Place) -> dict[int, int]:
    """{input_<n>: count} by number of the input."""
    found: dict[int, int] = {}
    for key, value in pairs_of(node, place):
        if not (match := re.fullmatch(r"input_(\d{1,4})", key.text)):
            refuse_name(key.text, ("input_0", "input_1"), "input", place, key.line)
        found[int(match[1])] = whole(1)(value, place)
    return found


@means({"type": ["number", "string"], "pattern": NUMBER, "maximum": 1, "minimum": 0})
def probability(node: Node, place: Place) -> float:
    """A number from 0 to 1."""
    value = number(node, place)
    return value if 0 <= value <= 1 else place.refuse(f"{value} is not from 0 to 1", node.line)


@means({"type": ["number", "string"], "pattern": NUMBER, "minimum": 0})
def threshold(node: Node, place: Place) -> float:
    """A number that is not negative."""
    value = number(node, place)
    return value if value >= 0 else place.refuse(f"{value} is negative", node.line)


BITS = whole(1, 15)
ATTRIBUTES: Mapping[str, Reader[Any]] = {
    "accumulate": boolean,
    "act_t": whole(1),
    "approximate_mode": boolean,
    "bias": boolean,
    "dequant": boolean,
    "dest_device": whole(),
    "dim": choice("r", "c", "rc", "z"),
    "egress_channels": list_of(whole(), 1),
    "exp": whole(0, 1 << 16),
    "fracture_factor": whole(1),
    "fused_op_id": nonempty,
    "granularity": choice("ublock", "t"),
    "identity": boolean,
    "indices_len": whole(),
    "ingress_channels": list_of(whole(), 1),
    "k": whole(1),
    "kernel_broadcast": by_input,
    "kernel_broadcast_per_t": by_input,
    "kreduce": boolean,
    "l1_acc": boolean,
    "m_k": whole(1),
    "min_buffer_input": whole(0, 1),
    "num_columns": whole(),
    "num_index_tiles": whole(),
    "num_indices": whole(1),
    "num_nz_strips": list_of(whole()),
    "num_sparse_tiles": whole(),
    "p": probability,
    "relu_en": boolean,
    "relu_mode": choice("min", "max", "none"),
    "relu_threshold": threshold,
    "requant": boolean,
    "seed": whole(0, (1 << 32) - 1),
    "sfpu_execution_thread": choice("math", "pack"),
    "sfpu_op": choice("gelu", "invalid"),
    "single_tile": list_of(whole()),
    "slope": number,
    "sort": choice("max", "argmax"),
    "sparse_tile_ptr_bits": BITS,
    "sparse_ublock_idx_bits": BITS,
    "srnd_fpu_en": boolean,
    "starting_row": whole(),
    "stoch_rnd_mode": choice("none", "fpu", "pack", "all"),
    "type": choice("max"),
    "u_kt": whole(1),
    "vector": choice("r", "c", "rc"),
    "z": whole(1, 1 << 16),
    "zero_point": number,
}
SPLICE = several(whole(0), 3)
"""[index, length, stride] of an input, the attribute input<n>."""


def words(text: str) -> tuple[str, ...]:
    """Names that blanks separate."""
    return tuple(text.split())


ANY_OP = words(
    "approximate_mode kernel_broadcast kernel_broadcast_per_t m_k relu_en relu_mode relu_threshold single_tile srnd_fpu_en"
    " stoch_rnd_mode u_kt vector"
)
IN_SCHEDULES = words("dim exp m_k p relu_en relu_mode relu_threshold seed slope type u_kt vector")
_MATMUL = (
    "accumulate act_t bias dequant fracture_factor identity indices_len l1_acc min_buffer_input num_columns num_index_tiles"
    " num_nz_strips num_sparse_tiles requant sfpu_execution_thread sfpu_op sparse_tile_ptr_bits sparse_ublock_idx_bits starting_row"
    " z zero_point"
)


@dataclass(frozen=True)
class OpKind:
    """`inputs` are the fewest and the most; `own` are the attributes beyond those of any op, `needs` those that must be there."""

    name: str
    family: Family
    inputs: tuple[int, int]
    own: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def attributes(self) -> tuple[str, ...]:
        return (*ANY_OP, *self.own)


def kind(name: str, family: Family, inputs: int | tuple[int, int], own: str = "", needs: str = "") -> OpKind:
    """A row of the table; names are separated by blanks."""
    counts = inputs if isinstance(inputs, tuple) else (inputs, inputs)
    return OpKind(name, family, counts, (*words(own), *words(needs)), words(needs))


_THREAD = "sfpu_execution_thread"
_KINDS = (
    *(kind(name, "copy", 1, _THREAD) for name in ("nop", "datacopy")),
    kind("ethernet_datacopy", "copy", 1, "ingress_channels egress_channels dest_device"),
    *(kind(name, "binary", 2) for name in ("add", "subtract", "multiply", "maximum")),
    *(
        kind(name, "sfpu", 1, _THREAD)
        for name in words("exp log sqrt reciprocal sigmoid tanh square sine cosine abs gelu gelu_derivative")
    ),
    kind("lrelu", "sfpu", 1, f"slope {_THREAD}"),
    kind("power", "sfpu", 1, _THREAD, "exp"),
    kind("dropout", "sfpu", 1, f"p seed {_THREAD}"),
    *(kind(name, "quant", 2, "zero_point") for name in ("quantization", "requantization", "dequantization")),
    kind("matmul", "matmul", (2, 4), _MATMUL, "m_k u_kt"),
    kind("reduce", "reduce", 1, "z", "dim type"),
    kind("depthwise", "other", (2, 3), "bias l1_acc min_buffer_input", "m_k u_kt"),
    kind("splice", "other", (1, 8), "granularity"),
    kind("embedding", "other", 2, needs="num_indices"),
    kind("tilizer", "other", 1),
    kind("topk", "other", 2, "sort kreduce", "k"),
    kind("fused_op", "other", (0, 64), needs="fused_op_id"),
    kind("drainer", "other", 1),
)
KINDS: Mapping[str, OpKind] = {row.name: row for row in _KINDS}
IN_FUSED: Mapping[str, OpKind] = {row.name: row for row in _KINDS if row.family != "other" and row.name != "ethernet_datacopy"}


def read_attributes(node: Node, kind: OpKind, place: Place, *, scheduled: bool = False) -> dict[str, Any]:
    """Attributes of an op of that kind, or of a step of a fused op, by name, in the file's order."""
    allowed = IN_SCHEDULES if scheduled else kind.attributes
    found: dict[str, Any] = {}
    for key, value in pairs_of(node, place):
        reader = ATTRIBUTES.get(key.text)
        if kind.name == "splice" and re.fullmatch(r"input[0-7]", key.text):
            reader = SPLICE
        elif key.text not in allowed or reader is None:
            refuse_name(key.text, sorted(allowed), f"attribute of {kind.name}", place, key.line)
        found[key.text] = reader(value, place.at(f"attribute {key.text}"))
    if not scheduled and (missing := [name for name in kind.needs if name not in found]):
        place.refuse(f"{kind.name} has no attribute {missing[0]}", node.line)
    return found
