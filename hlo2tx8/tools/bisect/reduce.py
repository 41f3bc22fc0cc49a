"""Makes a wrong module smaller: one instruction if one is enough, else as few as greedy cuts find."""

from collections.abc import Callable, Iterator

from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.dialects.layout import is_tensor
from hlo2tx8.hlo.regions import captured
from hlo2tx8.tools.bisect.part import CONSTANT, ModulePart
from hlo2tx8.tools.bisect.shrink import smaller_sizes

MOST_TRIES = 600


def reduce(part: ModulePart, still_fails: Callable[[ModulePart], bool]) -> ModulePart:
    """The smallest part found that still fails, after at most MOST_TRIES tries."""
    tries = iter(range(MOST_TRIES))
    while True:
        for candidate in _smaller(part):
            if next(tries, None) is None:
                return part
            if _size(candidate) < _size(part) and still_fails(candidate):
                part = candidate
                break
        else:
            return part


def _size(part: ModulePart) -> tuple[int, ...]:
    """Instructions also of fusions, outputs, arguments; what is in no fusion counts as smaller."""
    inner = sum(len(op.body.block.ops) for op in part.instructions if isinstance(op, FusionOp))
    fused = 1 if part.fusion else sum(isinstance(op, FusionOp) for op in part.instructions)
    elements = sum(array.size for array in part.arrays)
    return (len(part.instructions) + inner, fused, len(part.outputs), len(part.arrays), elements)


def _smaller(part: ModulePart) -> Iterator[ModulePart]:
    """Parts of it: its instructions alone, one output, everything behind or before a value, a fusion's inside, smaller arrays."""
    values = part.values()
    instructions = part.instructions
    if len(instructions) > 1:
        for op in instructions:
            results = [r for r in op.results if is_tensor(r.type)]
            read = {v for v in (*op.operands, *captured(op)) if v in values and not _is_constant(v)}
            if results:
                yield part.cut(results, read, values)
    if len(part.outputs) > 1:
        yield from (part.cut([output], (), values) for output in dict.fromkeys(part.outputs))
    inner = [r for op in instructions for r in op.results if is_tensor(r.type) and r not in part.outputs]
    yield from (part.cut([value], (), values) for value in inner)
    yield from (part.cut(part.outputs, {value}, values) for value in reversed(inner))
    if part.fusion:
        yield part.unfused()
    elif len(instructions) == 1 and isinstance(instructions[0], FusionOp):
        body = part.body(instructions[0], values)
        yield body.unfused()
        yield body
    yield from smaller_sizes(part)


def _is_constant(value: object) -> bool:
    return getattr(getattr(value, "owner", None), "name", "") == CONSTANT
