"""`hlo2tx8 oplib`: what the vendor's flow asks of ops, answered for an op of a usual size or for each op of a module."""

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hlo2tx8.errors import InputError
from hlo2tx8.tools.flags import add_switch

if TYPE_CHECKING:
    from hlo2tx8.vendor.oplib import OpLib


def parts(text: str) -> tuple[int, ...]:
    """A type of flags: parts of each dimension, as 1,4,16."""
    found = tuple(int(word) for word in text.split(","))
    if min(found) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} has a number below 1")
    return found


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The flags of `oplib`."""
    parser.set_defaults(function=oplib)
    parser.add_argument(
        "source", metavar="OP|FILE", help="an op, as `opcase --list` names it, or a module, of which each op is asked"
    )
    parser.add_argument("--dtype", default="", metavar="D", help="element type of an OP (the first of its probes)")
    parser.add_argument("--sharding", type=parts, metavar="N,..", help="parts of each dimension of the result over tiles")
    parser.add_argument("--split", type=parts, metavar="N,..", help="parts of each dimension of the result one after the other")
    add_switch(parser, "code", "print the program too")


def oplib(args: Any) -> int:
    """Print the answers."""
    from hlo2tx8.vendor.op_cases import find_op
    from hlo2tx8.vendor.op_probes import probe_of
    from hlo2tx8.vendor.oplib import OpLib

    if Path(args.source).exists():
        if args.dtype:
            raise InputError("E1004", "--dtype is of an OP, and a module has its own")
        libraries = OpLib.each(args.source)
    else:
        op = find_op(args.source)
        every = OpLib.each(probe_of(op, args.dtype), "stablehlo")
        libraries = tuple(found for found in every if found.op.name == op) or every
    if not libraries:
        raise InputError("E1004", f"{args.source} has no op with operands")
    for library in libraries:
        print("\n".join(_lines(library, args)))
    return 0


def _lines(library: "OpLib", args: Any) -> Iterator[str]:
    takes, gives = (", ".join(map(str, side)) for side in (library.operands, library.results))
    yield f"{library.op.name}: ({takes}) -> ({gives})"
    code = library.gen_op_code()
    yield f"  genOpCode           {len(library.executable.program.code)} instructions"
    yield f"  getOpClockCycle     {library.get_op_clock_cycle():,} cycles"
    yield f"  getImmSpSize        {library.get_imm_sp_size():,} bytes"
    attributes = asdict(library.query_op_attr()).items()
    yield "  queryOpAttr         " + " ".join(
        f"{k}={v:#x}" if k.startswith("need") and k[4:] in MASKS else f"{k}={v}" for k, v in attributes
    )
    yield f"  inferShapes         {', '.join(map(_shape, library.infer_shapes()))}"
    yield f"  inferLayout         {library.infer_layout(*(_dense(t.shape) for t in library.operands))}"
    shards, splits = (", ".join(map(str, dims)) or "none" for dims in library.divisible())
    yield f"  dimensions          over tiles {shards}; in time {splits}"
    if args.sharding is not None or args.split is not None:
        whole = (1,) * len(library.results[0].shape)
        sharding, split = args.sharding or whole, args.split or whole
        for number, found in enumerate(library.tile_sharding_split(sharding, split)):
            yield f"  tileShardingSplit   operand {number}: sharding {_shape(found.sharding)}, split {_shape(found.split)}"
        yield f"  temporalSliceShape  {', '.join(map(_shape, library.temporal_slice_shape(sharding, split)))}"
    if args.code:
        yield code


MASKS = ("Load", "Store")


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _dense(shape: tuple[int, ...]) -> str:
    from hlo2tx8.dialects.tx8be_shapes import dense_layout

    return dense_layout(shape)
