"""What selects each instruction: a source whose program has it, or why no program has: `python -m hlo2tx8.dev.isa_uses`.

Compiles every sample, every test of an emitter and the probes of ops, and writes docs/isa_uses.json, from which docs/isa.md takes
its last column. Programs by hand may use all instructions.
"""

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from hlo2tx8.device.isa import INSTRUCTIONS
from hlo2tx8.device.isa.encoding import decode_records
from hlo2tx8.errors import Hlo2tx8Error
from hlo2tx8.hlo import all_specs
from hlo2tx8.runtime.compile import compile_source
from hlo2tx8.vendor.op_probes import probes

ROOT = Path(__file__).parents[2]
PATH = ROOT / "docs" / "isa_uses.json"
FOLDERS = ("hlo_samples", "tests/hlo")
IDLE = {
    r".*V_V_square": "a product of a vector with itself is a V_VV_mul, which takes as long",
    r".*ArithOp_V_VuV_(div|max|min)(_loop)?": "rows of channels are operands in batch norm, which needs add, sub and mul",
    r".*RelaOp_V_VuV_\w+": "rows of channels are operands in batch norm, which compares nothing",
    r".*RelaOp_bV_\w+": "truths are bytes in memory; packed ones between a comparison and a select are not made so far",
    r".*LogicOp_V_\w+": "truths are joined as bits, in less time",
    r".*LogicOp_bV_bV_not": "of a truth, a byte, one bit is turned: bV_bVbV_xor",
    r".*LogicOp_bV_bVubV_\w+": "no truth is the same for a row of channels so far",
    r".*TransOp_V_V_(log2|pow2)": "HLO has no such op: frameworks write log and exponential with a factor",
    r".*(ReduceOp_T_T|PoolOp_T_T)_avg": "a mean is a sum and a division in HLO, with a rounding in between",
    r".*PoolOp_T_T_(max|min|sum)": "windows are taken point by point by V_VV_max, min, add, without a padded copy of the image",
    r".*PoolOp_T_T_(max|min)_indexed": "HLO's pools say no places; gradients compare",
    r".*UnpoolOp_\w+": "gradients of pools are sums over the windows that hold a point, in the order of HLO",
    r".*ActOp_V_V_relu": "a maximum with zero is V_VS_max, as quick, and leaves -0",
    r".*ActOp_V_V_(satrelu|leakyrelu)": "bound and slope are the chip description's, those of a module are its own",
    r".*ActOp_V_V_softplus": "frameworks write it so that it does not overflow",
    r".*PeriOp_(S_V_count|V_V_bit2fp)": "nothing in HLO counts numbers that are not zero, or unpacks bits",
    r".*(bitcount|fp32_factorize|bilinear|lut16|lut32|rand_gen|elem_mask|maskgather)": "its law is not published",
    r"KC_VV_nextafter": "written in comparisons and sums of the bits",
    r"KC_V_scatter": "scatters store elements from DDR to DDR, or rows; one vector does not hold all places",
    r"NE_\w+_quantised": "quantised modules state their roundings in floats, which differ from its shifts",
    r"NE_conv_backward_image": "a gradient of an image is a convolution with the turned filter: NE_conv, in as many products",
    r"TDMA_(transpose|mirror|rotate90|rotate270|nchw2nhwc|nhwc2nchw|concat|pad|img2col|channelnorm)": (
        "TDMA_gatherScatter makes the same move, and any other, at the same rate"
    ),
    r"DTE_(unicast|gather)": "what tiles exchange is multicast",
}
"""Instructions, by their names' pattern, that no program of the compiler has; and why."""


def reason(name: str) -> str:
    """Why no program has the instruction; empty if one has."""
    return next((why for pattern, why in IDLE.items() if re.fullmatch(pattern, name)), "")


def selected(text_or_path: str, format: str = "") -> set[str]:
    """Names of the instructions in the program of a source; none if it is refused."""
    try:
        program = compile_source(text_or_path, format=format).program
    except Hlo2tx8Error:
        return set()
    return {record.kind.MNEMONIC for record in decode_records(program.code, program.origins)}


def sources() -> Iterator[tuple[str, str, str]]:
    """What is compiled: its name on the page, the text or path, the format."""
    for folder in FOLDERS:
        for path in sorted([*(ROOT / folder).rglob("*.hlo"), *(ROOT / folder).rglob("*.mlir")]):
            yield str(path.relative_to(ROOT)), str(path), ""
    for spec in all_specs():
        for probe in probes(spec):
            yield f"{probe.op} {probe.dtype}", probe.text, "stablehlo"


@cache
def stored() -> dict[str, str]:
    """Instruction → a source that selects it, as the file says."""
    return json.loads(PATH.read_text()) if PATH.is_file() else {}


def main() -> int:
    """Write the file, with the first source of each instruction; 1 if an instruction has neither a source nor a reason, or both."""
    found: dict[str, str] = {}
    for name, text, format in sources():
        for instruction in sorted(selected(text, format) - found.keys()):
            found[instruction] = name
    PATH.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n")
    wrong = [cls.MNEMONIC for cls in INSTRUCTIONS if (cls.MNEMONIC in found) == bool(reason(cls.MNEMONIC))]
    print("\n".join(wrong), file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
