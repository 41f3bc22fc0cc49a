"""Which engine computes each op on each dtype, by compiling one module of each: `python -m hlo2tx8.dev.op_engines [OP ...]`.

Writes docs/op_engines.json, from which docs/ops.md is made, for the ops named or for all; `--check` says whether it is what the
compiler does.
"""

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from hlo2tx8.device.native.machines import processors
from hlo2tx8.errors import Hlo2tx8Error, UnsupportedError
from hlo2tx8.hlo import OpSpec, all_specs, spec_of
from hlo2tx8.hlo.signature import short_dtype
from hlo2tx8.hlo.types import dtype, mlir_name
from hlo2tx8.runtime.compile import compile_source
from hlo2tx8.tools.engines import engines_of
from hlo2tx8.vendor.op_probes import DTYPES, OpProbe, probes

PATH = Path(__file__).parents[2] / "docs" / "op_engines.json"
REFUSED = "no: "
"""Before the reason, where an op is not compiled."""
COLUMNS: tuple[tuple[str, ...], ...] = (
    *(("float64",), ("float32",), ("float16",), ("bfloat16",), ("float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz")),
    *(("int64", "uint64"), ("int32", "uint32"), ("int16", "uint16"), ("int8", "uint8"), ("int4", "uint4", "int2", "uint2")),
    *(("bool",), ("complex64",), ("complex128",)),
)
Engines = Mapping[str, str]
"""Dtype → engines, or why not."""


def engines(probe: OpProbe) -> str:
    """What the compiler makes of a probe."""
    try:
        return engines_of(compile_source(probe.text, format="stablehlo").program)
    except UnsupportedError as error:
        return REFUSED + "; ".join(dict.fromkeys(op.reason or f"{op.name} is not supported" for op in error.ops))
    except Hlo2tx8Error as error:
        return REFUSED + error.message.partition("\n")[0]


def found(specs: Sequence[OpSpec], jobs: int = 1) -> dict[str, Engines]:
    """Op → its engines, for ops that have probes."""
    every = [probe for spec in specs for probe in probes(spec)]
    if jobs > 1:
        with ProcessPoolExecutor(jobs) as pool:
            results = list(pool.map(engines, every, chunksize=16))
    else:
        results = [engines(probe) for probe in every]
    table: dict[str, dict[str, str]] = {}
    for probe, result in zip(every, results, strict=True):
        table.setdefault(probe.op, {})[probe.dtype] = result
    return {op: {name: table[op][name] for name in DTYPES if name in table[op]} for op in sorted(table)}


def stored() -> dict[str, Engines]:
    """What the file says."""
    return json.loads(PATH.read_text()) if PATH.is_file() else {}


def cells(of: Engines) -> list[str]:
    """One per column: engines, `no` where it is refused, `·` where the op is not defined; then the reasons, by dtype."""
    row: list[str] = []
    for names in COLUMNS:
        values = dict.fromkeys("no" if of[name].startswith(REFUSED) else of[name] for name in names if name in of)
        row.append(" / ".join(values) or "·")
    reasons: dict[str, list[str]] = {}
    for name, value in of.items():
        if value.startswith(REFUSED):
            reason = re.sub(rf"\b{re.escape(mlir_name(dtype(name)))}\b", "this", value.removeprefix(REFUSED))
            reasons.setdefault(reason, []).append(short_dtype(name))
    return [*row, "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())]


def heading(names: Sequence[str]) -> str:
    """A column's dtypes."""
    return "f8" if names[0].startswith("float8") else ", ".join(map(short_dtype, names))


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check; 1 if something differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("ops", nargs="*", metavar="OP", help="only these")
    parser.add_argument("--check", action="store_true", help="write nothing, exit with 1 if the file is stale")
    parser.add_argument("--jobs", type=int, default=processors(), help="processes (one per processor)")
    args = parser.parse_args(argv)
    new = found([spec_of(op) for op in args.ops] or all_specs(), args.jobs)
    old = stored()
    if args.check:
        wrong = [op for op in {**old, **new} if (op in new or not args.ops) and old.get(op) != new.get(op)]
        if wrong:
            print(f"stale: {', '.join(wrong)}; run `make docs`", file=sys.stderr)
        return int(bool(wrong))
    write({**old, **new} if args.ops else new)
    return 0


def write(table: Mapping[str, Engines]) -> None:
    """A line per op."""
    lines = ",\n".join(f" {json.dumps(op)}: {json.dumps(of)}" for op, of in sorted(table.items()))
    PATH.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    sys.exit(main())
