"""Makes the arrays of a wrong module smaller: one size is replaced by a smaller one wherever it occurs.

    add f32[6,33], f32[6,33]    ⟶    add f32[6,16], f32[6,16]    if that still fails, then f32[6,8], ...

Sizes that mean something else make modules that do not verify, or do not fail in the same way: those are not taken.
"""

import re
from collections.abc import Iterator

import numpy as np

from hlo2tx8.dialects.layout import as_tensor, is_tensor
from hlo2tx8.errors import CompileError
from hlo2tx8.tools.bisect.part import ModulePart

_SHAPE = re.compile(r"(?<=tensor<)(?:\d+x)+")
_ATTRIBUTE = re.compile(r"(?<=array<i64: )[-\d, ]+")


def smaller_sizes(part: ModulePart) -> Iterator[ModulePart]:
    """Parts in which one size is halved or reduced by one, the largest size first."""
    from hlo2tx8.compiler.driver import load_source
    from hlo2tx8.frontend import to_mlir_text

    values = [*part.block.args, *(r for op in part.block.ops for r in op.results)]
    sizes = {n for value in values if is_tensor(value.type) for n in as_tensor(value.type).get_shape() if n > 1}
    text = to_mlir_text(part.module())
    for size in sorted(sizes, reverse=True):
        for smaller in dict.fromkeys((size // 2, size - 1)):
            try:
                module = load_source(_with_size(text, size, smaller), format="stablehlo")
            except CompileError:
                continue
            cuts = (tuple(slice(smaller if n == size else n) for n in array.shape) for array in part.arrays)
            arrays = [np.ascontiguousarray(array[cut]) for array, cut in zip(part.arrays, cuts, strict=True)]
            yield ModulePart.of(module, arrays)


def _with_size(text: str, size: int, smaller: int) -> str:
    def replace(match: re.Match[str]) -> str:
        return re.sub(rf"\b{size}\b", str(smaller), match[0].replace("x", " x ")).replace(" x ", "x")

    return _ATTRIBUTE.sub(replace, _SHAPE.sub(replace, text))
