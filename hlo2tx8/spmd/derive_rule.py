"""Sharding rules derived from what OpSpecs say: kind, indexing maps, linearity, batch dimensions.

dot_general, (d0, d1)[s0] -> (d0, s0) and (s0, d1)      factors d0, d1, s0; s0 is reduced by add
reshape [8, 3] to [24], (d0) -> (d0 floordiv 3, ...)    one factor of size 8: eight blocks of d0 are eight blocks of the operand
pad by one row, (d0) -> (d0 - 1)                        no factor: blocks of the result are no blocks of the operand
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import gcd

from hlo2tx8.hlo.spec import Attributes, Kind, Maps, OpSpec, TensorLike
from hlo2tx8.hlo.types import is_complex, is_float
from hlo2tx8.indexing import Dim, Expr, IndexingMap, Interval, Simplifier, Sym
from hlo2tx8.spmd.sharding_rule import ADD, DimFactors, OpShardingRule, Shapes, batch_rule, replicated_rule

Tensors = Sequence[TensorLike]


def derive_rule(spec: OpSpec, attributes: Attributes, operands: Tensors, results: Tensors, reduction: str = "") -> OpShardingRule:
    """The rule of an op on these tensors; without factors where its spec says too little.

    `reduction` is the op that its region consists of, if shards may be combined by it: for reduce and scatter.
    """
    shapes = [t.shape for t in operands], [t.shape for t in results]
    if any(0 in shape for shape in (*shapes[0], *shapes[1])):
        return replicated_rule(*shapes)
    rule = _factors(spec, attributes, operands, results, reduction)
    linear = spec.linear_operands(len(operands))
    if spec.kind is Kind.REDUCE and rule.reduction == ADD:
        linear = (0,)
    kinds = {t.dtype for t in (*(operands[i] for i in linear), *results)}
    if len(kinds) > 1 and not all(is_float(kind) or is_complex(kind) for kind in kinds):
        linear = ()
    sizes = {name: rule.operands[0] for name in spec.size_attributes}  # noqa: C420 - there may be no operands
    return replace(rule, linear=linear, is_multilinear=spec.is_multilinear, size_attributes=sizes)


def _factors(spec: OpSpec, attributes: Attributes, operands: Tensors, results: Tensors, reduction: str) -> OpShardingRule:
    shapes = [t.shape for t in operands], [t.shape for t in results]
    if spec.kind is Kind.ELEMENTWISE:
        shape = results[0].shape
        if shape not in shapes[0] or any(s not in ((), shape) for s in (*shapes[0], *shapes[1])):
            return replicated_rule(*shapes)
        return batch_rule(*shapes, range(len(shape)))
    if spec.batch_dimensions is not None:
        rank = max(map(len, (*shapes[0], *shapes[1])))
        return batch_rule(*shapes, spec.batch_dimensions(attributes, rank))
    if spec.update_indexing is not None and len(results) == 1:
        maps = spec.update_indexing(attributes, results[0], tuple(operands))
        space = _IterationSpace(maps[-1][0], operands[-1].shape)
        return space.rule(maps, shapes, (maps[0],), reduction, accumulated=0 if reduction == ADD else None)
    if spec.indexing is None or spec.update_indexing is not None or not operands:
        return replicated_rule(*shapes)
    maps = spec.indexing(attributes, results[0], tuple(operands))
    space = _IterationSpace(maps[0][0], results[0].shape, has_blocks=spec.kind is Kind.SHAPING)
    identity = (IndexingMap.identity(results[0].shape),)
    combined = ADD if spec.is_multilinear else reduction
    return space.rule(maps, shapes, (identity,) * len(results), combined)


@dataclass(frozen=True)
class _Use:
    """An expression with a variable in it, that says where in dimension `dim`, of `size` elements, an array is read."""

    array: int
    dim: int
    size: int
    expr: Expr


@dataclass
class _IterationSpace:
    """The variables of an op's maps: dimensions of `shape`, then the range variables of `map`, which all maps share.

    With `has_blocks`, blocks of a variable may be blocks of a dimension of another size, as in reshapes.
    """

    map: IndexingMap
    shape: Sequence[int]
    has_blocks: bool = False
    sizes: list[int] = field(default_factory=list[int])

    def rule(
        self,
        maps: Maps,
        shapes: tuple[Shapes, Shapes],
        result_maps: Maps,
        reduction: str,
        accumulated: int | None = None,
    ) -> OpShardingRule:
        """The rule of an op that reads its operands by `maps` and writes its results by `result_maps`."""
        count = len(maps)
        simple = tuple(tuple(m.simplify() for m in own) for own in (*maps, *result_maps))
        sizes_of = [*shapes[0], *shapes[1]]
        dims: list[list[int | None]] = [[None] * len(shape) for shape in sizes_of]
        reduced: list[int] = []
        extents: list[tuple[Dim | Sym, int]] = [(Dim(i), n) for i, n in enumerate(self.shape)]
        extents += [(Sym(i), v.hi + 1) for i, v in enumerate(self.map.ranges)]
        for variable, extent in extents:
            uses = _uses(variable, extent, simple, sizes_of)
            is_reduced = not any(use.array >= count for use in uses)
            if not uses or (is_reduced and not reduction):
                continue
            found = self._blocks(variable, extent, uses)
            if found is None:
                continue
            size, sharded = found
            for use in sharded:
                dims[use.array][use.dim] = len(self.sizes)
            reduced += [len(self.sizes)] if is_reduced else []
            self.sizes.append(size)
        factors: list[DimFactors] = [tuple(own) for own in dims]
        has_reduced = bool(reduced)
        return OpShardingRule(
            tuple(self.sizes),
            tuple(factors[:count]),
            tuple(factors[count:]),
            tuple(reduced),
            reduction if has_reduced else "",
            accumulated_operand=accumulated if has_reduced else None,
        )

    def _blocks(self, variable: Dim | Sym, extent: int, uses: Sequence[_Use]) -> tuple[int, Sequence[_Use]] | None:
        """A number of equal blocks of a variable that are blocks of dimensions, and the uses that are these; None if none are."""
        if all(use.expr == variable and use.size == extent for use in uses):
            return (extent, uses) if _is_once_per_array(uses) else None
        if not self.has_blocks or isinstance(variable, Sym):
            return None
        for candidate in uses:
            count = gcd(extent, candidate.size)
            sharded = self._sharded(variable, extent, count, uses) if count > 1 else None
            if sharded and _is_once_per_array(sharded):
                return count, sharded
        return None

    def _sharded(self, variable: Dim, extent: int, count: int, uses: Sequence[_Use]) -> list[_Use] | None:
        """The uses whose dimension is split into `count` blocks as the variable is; None if another use depends on the block."""
        rank = len(self.shape)
        block, inside = Dim(rank), Dim(rank + 1)
        variables: list[Expr] = [Dim(i) for i in range(rank)]
        variables[variable.index] = block * (extent // count) + inside
        bounds = [Interval(0, n - 1) for n in (*self.shape, count, extent // count)]
        simplifier = Simplifier(bounds, [v.interval for v in self.map.syms])
        syms = [Sym(i) for i in range(len(self.map.syms))]
        sharded: list[_Use] = []
        for use in uses:
            expr = simplifier.simplify(use.expr.substitute(variables, syms))
            if block not in expr.leaves():
                continue
            if use.size % count or simplifier.simplify(expr // (use.size // count)) != block:
                return None
            sharded.append(use)
        return sharded


def _is_once_per_array(uses: Sequence[_Use]) -> bool:
    """Is no array split along two dimensions by one variable, as the diagonal of a matrix is?"""
    found = {(use.array, use.dim) for use in uses}
    return len({array for array, _ in found}) == len(found)


def _uses(variable: Dim | Sym, extent: int, maps: Maps, shapes: Shapes) -> list[_Use]:
    """Where arrays are read by a variable; nowhere if some array is not read for all of its values."""
    found: list[_Use] = []
    for array, (own, shape) in enumerate(zip(maps, shapes, strict=True)):
        for map in own:
            own_variables = map.dims if isinstance(variable, Dim) else map.ranges
            if variable.index >= len(own_variables):
                continue
            bounds = own_variables[variable.index].interval
            if bounds != Interval(0, extent - 1) or any(variable in expr.leaves() for expr, _ in map.constraints):
                return []
            found += [
                _Use(array, dim, size, expr)
                for dim, (expr, size) in enumerate(zip(map.results, shape, strict=True))
                if variable in expr.leaves()
            ]
    return found
