"""What the instruction classes declare to the native core, and its digest."""

from collections.abc import Iterator
from hashlib import sha256

from hlo2tx8.device.isa import INSTRUCTIONS, Instruction
from hlo2tx8.device.isa.expressions import Expression


def expressions(cls: type[Instruction]) -> Iterator[tuple[Expression, int]]:
    """The expressions an instruction states, each with its number of operands."""
    for expression in (cls.EXPRESSION, cls.INTEGER_EXPRESSION, cls.PRED_EXPRESSION):
        if expression is not None:
            yield expression, 1 if cls.SHAPE == "ONE" else 2


def digest() -> str:
    """A quick digest of what the instruction classes declare: a core that was built with another one is stale."""
    declared = [
        (
            cls.__name__,
            cls.OPCODE,
            cls.ENGINE.value,
            [(f.name, f.least, f.most) for f in cls.FIELDS],
            [f.value for f in (*cls.FORMATS, *cls.FORMATS2)],
            cls.FORM,
            cls.SHAPE,
            [(e.domain.name, e.text) for e, _ in expressions(cls)],
            cls.FUNCTION,
            cls.EXACT.expression,
            (cls.HAS_POLES, cls.IS_LOW_PRECISION, cls.JOIN, cls.AVERAGES),
        )
        for cls in INSTRUCTIONS
    ]
    return sha256(repr(declared).encode()).hexdigest()
