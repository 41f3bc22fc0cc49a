"""What the vendor's flow asks of each op, by compiling one module of each: `python -m hlo2tx8.dev.oplib_page`.

Writes docs/oplib.json, from which docs/oplib.md is made.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from hlo2tx8.dev.isa_page import table
from hlo2tx8.errors import Hlo2tx8Error
from hlo2tx8.vendor.op_cases import case_names
from hlo2tx8.vendor.op_probes import probe_of, templates
from hlo2tx8.vendor.oplib import OpLib

PATH = Path(__file__).parents[2] / "docs" / "oplib.json"
LEAD = """\
`hlo2tx8 oplib OP` answers what the vendor's back end asks of an op, `hlo2tx8 oplib FILE` for each op of a module, and `OpLib`
in Python:

```python
from hlo2tx8.vendor.oplib import OpLib

library = OpLib.of(text)  # a module of one op
library.gen_op_code(), library.get_op_clock_cycle(), library.get_imm_sp_size(), library.query_op_attr()
library.infer_shapes((3, 4, 5, 6)), library.infer_layout("NCHW")
library.tile_sharding_split((1, 1, 1, 4), (2, 1, 1, 1)), library.temporal_slice_shape((1, 1, 1, 4), (2, 1, 1, 1))
library.back_window((0, 0, 0, 0), (1, 8, 8, 16))
```

No answer is kept in a table. Code, cycles and scratch are those of the program that the compiler makes of the op alone;
`queryOpAttr` looks at the instructions of that program; shapes, parts and windows follow from the op's indexing maps. So they
hold for one use of the op, and the rows below are of the module that `opcase` draws with all sizes at their defaults, in bf16
where the op takes it.

| method | answer |
|---|---|
| genOpCode | the tile program |
| getOpClockCycle | modelled cycles, launch included |
| getImmSpSize | bytes of a tile's SPM beside the buffers of inputs and outputs |
| queryOpAttr | below; `defaultLayout` is Tensor where the first dimension is 1, else NTensor; a mask is asked `mask >> i & 1` |
| inferShapes | of other shapes too, refused where none follows |
| inferLayout | as the dialect [tx8be](vendor.md) has it |
| tileShardingSplit | parts of each operand, over tiles and in time; what cannot be had so is an empty vector |
| temporalSliceShape | what a tile needs of each operand at once, halo included |
| backWindow | the box of each operand behind a box of the result, and how far windows reach beyond the edge |

Batch norm is sharded along channels only and split along the others only, with its parameters whole, as the vendor has it. Its
published design takes 2 * sizeof(input) of scratch for types other than fp32. The two part here: this compiler first makes dense
data blocks of channels, and has a buffer for each of the steps in fp32, 9,728 bytes for slices of 1,680 bytes of 4x112x2x30 in
bf16. What is answered is what the program takes.

align: what `alignMode` is without NPU_; `preset` needPresetToNPU; `in place` memInplace; `not loaded` operands whose bit of
needLoad is 0; `parallel`; over tiles, in time: dimensions of the result that can have parts. alignCx is set where align is
ALIGN."""


def answer(op: str) -> Mapping[str, str]:
    """A row: what is asked, and the answer."""
    every = OpLib.each(probe_of(op), "stablehlo")
    library = next((found for found in reversed(every) if found.op.name == op), None)
    if library is None:
        return {}
    attributes = library.query_op_attr()
    shards, splits = library.divisible()
    return {
        "engine": attributes.engine,
        "align": attributes.alignMode.removeprefix("NPU_"),
        "preset": _yes(attributes.needPresetToNPU),
        "in place": _yes(attributes.memInplace),
        "not loaded": ", ".join(str(k) for k in range(len(library.operands)) if not attributes.loads(k)),
        "parallel": _yes(attributes.parallel),
        "over tiles": _dims(shards),
        "in time": _dims(splits),
    }


def oplib_text() -> str:
    """The page behind its first line."""
    rows = json.loads(PATH.read_text())
    header = ("op", *next(iter(rows.values())))
    return f"# Op library\n\n{LEAD}\n\n{table(header, [(f'`{op}`', *row.values()) for op, row in rows.items()])}\n"


def _yes(value: bool) -> str:
    return "yes" if value else ""


def _dims(dims: tuple[int, ...]) -> str:
    return ", ".join(map(str, dims))


def main() -> int:
    """Write the file; ops without operands, and those that the dialect has no op for, have no row."""
    rows: dict[str, Mapping[str, str]] = {}
    for op in case_names():
        if "." not in op and op in templates():
            continue
        try:
            if row := answer(op):
                rows[op] = row
        except Hlo2tx8Error as error:
            print(f"{op}: {error}", file=sys.stderr)
    lines = ",\n".join(f" {json.dumps(op)}: {json.dumps(row)}" for op, row in rows.items())
    PATH.write_text(f"{{\n{lines}\n}}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
