"""A product and the attention that reads it, which may be a group of phases: tiles attend with what they have computed.

    %q, %k, %v = hlo.fusion "multiply_fusion"(%x, %wq, %wk, %wv)        8 sequences, 12 heads
    %0 = hlo.group rows [512, 64] (%q, %k, %v) { scores, softmax, products }

That takes as many sequences for each row of the mesh, or of one of another shape, and heads for each column of it, in whole blocks
of the matrix engine. Whether it is faster than the two apart is for their emitter to say.
"""

from math import prod

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Operation

from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects.hlo import FusionOp, GroupOp
from hlo2tx8.fusion.build_group import build_group, name_of_fusion
from hlo2tx8.fusion.phases import needed_by
from hlo2tx8.hlo.precision import num_parts
from hlo2tx8.notes import Decision, Name, What
from hlo2tx8.partitioner.contraction import is_contraction, num_products, why_not_on_engine
from hlo2tx8.partitioner.instruction import shape_of
from hlo2tx8.schedule.contraction_work import BLOCK
from hlo2tx8.schedule.costs import size_bytes
from hlo2tx8.schedule.work_split import Target

RANK_OF_SCORES = 3
"""Heads, queries, keys; of several sequences one more."""


def group_heads(block: Block, target: Target) -> list[str]:
    """Puts groups by rows of a block and the products that they read into groups of phases where tiles can have heads of their own;
    a line about each."""
    notes: list[str] = []
    for attention in [op for op in block.ops if isinstance(op, GroupOp) and op.row_split is not None]:
        products = _made_by(attention)
        if len(products) != 1:
            several = ", ".join(map(name_of_fusion, products))
            notes += [f"{several}: no phases with the attention that reads them, they are several kernels"] if products else []
            continue
        product = products[0]
        inner = [op for op in attention.body.block.ops if isinstance(op, FusionOp)]
        names = tuple(Name(name_of_fusion(op)) for op in (product, *inner))
        if not meshes_of_heads(product, attention, target.rates):
            why = _why_not(product, attention, target.rates)
            notes.append(Decision(What.NO_GROUP, names, why=f"a product and its attention are no phases, {why}").line())
        else:
            why = "phases, whose tiles attend with what they have computed"
            notes.append(Decision(What.GROUP, names, why=why).line())
            phases = build_group((product, attention), {"phases": UnitAttr()})
            if (projection := _projection(phases)) is not None:
                why = "phases with the attention that it reads"
                notes.append(Decision(What.GROUP, (Name(name_of_fusion(projection)),), why=why).line())
                build_group((phases, projection), {"phases": UnitAttr()})
    return notes


def meshes_of_heads(product: FusionOp, attention: GroupOp, rates: Rates) -> list[Rates]:
    """The meshes on which tiles can attend with what they have computed."""
    return [own for own in rates.meshes if not _why_not(product, attention, own)]


def _projection(phases: GroupOp) -> FusionOp | None:
    """The fusion of one product that alone reads attention."""
    use = phases.results[0].get_unique_use() if len(phases.results) == 1 else None
    reader = use.operation if use is not None else None
    if not isinstance(reader, FusionOp) or reader.parent is not phases.parent or len(reader.results) != 1:
        return None
    return reader if len(_products(reader)) == 1 else None


def kept_bytes(product: FusionOp, shared: int, rates: Rates) -> int:
    """What a tile keeps of the results of a product: its part of the queries, and of the others the parts of so many tiles."""
    first, *others = (size_bytes(value) // rates.tiles for value in product.results)
    return first + shared * sum(others)


def _made_by(attention: GroupOp) -> list[FusionOp]:
    """The fusions with products that a group reads which begins with the scores of several heads of several sequences; none if it
    is another group."""
    scores = next(op for op in attention.body.block.ops if isinstance(op, FusionOp))
    owners = [value.owner for value in attention.operands]
    is_of_heads = len(_products(scores)) > 0 and len(shape_of(scores.results[0])) >= RANK_OF_SCORES
    return [op for op in dict.fromkeys(owners) if isinstance(op, FusionOp) and _products(op)] if is_of_heads else []


def _products(fusion: FusionOp) -> list[Operation]:
    body = fusion.body.block
    return [op for op in body.ops if op is not body.last_op and is_contraction(op)]


def _why_not(product: FusionOp, attention: GroupOp, rates: Rates) -> str:
    """Why tiles of a mesh cannot attend with what they have computed; "" if they can."""
    products = _products(product)
    if any(why_not_on_engine(op) or num_parts(op) > 1 for op in products):
        return "the product is not one pass of the matrix engine"
    fusions = [op for op in attention.body.block.ops if isinstance(op, FusionOp)]
    *outer, heads, rows, _ = shape_of(fusions[0].results[0])
    shared = max(1, rates.mesh_rows // prod(outer))
    if prod(outer) * shared % rates.mesh_rows:
        return f"{prod(outer)} sequences are no multiple of {rates.mesh_rows} rows of the mesh, nor these of them"
    if rows % shared:
        return f"{rows} rows are no multiple of the {shared} tiles that would have parts of them"
    if heads % rates.mesh_columns:
        return f"{heads} heads are no multiple of {rates.mesh_columns} columns of the mesh"
    sizes = {shape_of(value) for value in product.results}
    if len(sizes) > 1 or prod(next(iter(sizes))) != prod(outer) * heads * rows * BLOCK:
        return f"its results are not heads of {BLOCK} columns"
    if any(heads * BLOCK not in {prod(shape_of(v)) // num_products(op) for v in op.operands} for op in products):
        return f"it has other than {heads * BLOCK} columns"
    if any(value not in attention.operands for value in product.results):
        return "the attention does not read all that the product makes"
    if (kept := kept_bytes(product, shared, rates)) > rates.kept_bytes:
        return f"a tile would keep {kept} bytes, more than {rates.kept_bytes}"
    others = {value.owner for value in attention.operands if isinstance(value.owner, Operation)} - {product}
    behind = others.union(*map(needed_by, others))
    return "what lies between them is computed of the product" if product in behind else ""
