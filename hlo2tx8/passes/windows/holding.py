"""Combiners of values that may be missing: where nothing lies, nothing takes part."""

from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Region

from hlo2tx8.builders.body_builder import BodyBuilder
from hlo2tx8.dialects.layout import as_tensor


def holding(body: Block) -> Region:
    """The combiner (values..., is there) x (values..., is there) of a combiner of values, `body`.

    Of two sides that are there it gives what `body` gives, else the side that is there.
    """
    half = len(body.args) // 2
    builder = BodyBuilder([*(as_tensor(arg.type).element_type for arg in body.args[:half]), i1] * 2)
    *left, left_holds = builder.args[: half + 1]
    *right, right_holds = builder.args[half + 1 :]
    both = builder.inline(body, [*left, *right])
    ones = [builder.emit("select", [left_holds, a, b], a.type) for a, b in zip(left, right, strict=True)]
    both_hold, any_holds = (builder.emit(name, [left_holds, right_holds]) for name in ("and", "or"))
    return builder.region(*(builder.emit("select", [both_hold, a, b], a.type) for a, b in zip(both, ones, strict=True)), any_holds)
