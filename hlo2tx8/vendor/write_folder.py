"""`write_folder`: a chip folder of a module: description, tx8be, each chip's streams, inputs, parameters, reference; main.c."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.chip_links import ChipMesh, Packet
from hlo2tx8.device.formats import Format
from hlo2tx8.device.program import Program, SlotKind
from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.dialects.tx8be import OPS
from hlo2tx8.dialects.tx8be_shapes import shape_of
from hlo2tx8.errors import InputError, writing
from hlo2tx8.frontend.chip_folder import FORMATS, INFO
from hlo2tx8.hlo.module import module_name
from hlo2tx8.hlo.signature import Port, Signature
from hlo2tx8.vendor.platforms import write_main
from hlo2tx8.vendor.stream_config import stream_config
from hlo2tx8.vendor.streams import streams_of, tile_packets

Array = npt.NDArray[Any]
CODES = {dtype: code for code, dtype in FORMATS.items() if code != Format.TF32}
ACTIVATION = 34
"""Layout code of tensors of rank 3 or more that are not parameters; 0 is Unknown."""


@dataclass(frozen=True)
class FolderContent:
    """What a folder is written of: a module in tx8be of what each of the chips in a mesh runs, whose constants move to param.bin;
    each chip's inputs and results; the programs that its figures are of; packets between `chips`; and of one chip the program that
    main.c is of."""

    module: ModuleOp
    signature: Signature
    inputs: Sequence[Sequence[Array]]
    results: Sequence[Sequence[Array]]
    programs: Sequence[Program] = ()
    mesh: ChipMesh = field(default_factory=lambda: ChipMesh(1, 1))
    chips: Sequence[Packet] = ()
    main: Program | None = None

    @property
    def scratch_bytes(self) -> int:
        """What the largest program needs in DDR beside its arrays."""
        return max((sum(s.size_bytes for s in each.slots_of(SlotKind.SCRATCH)) for each in self.programs), default=0)


def write_folder(folder: Path, content: FolderContent, chip: Chip) -> None:
    """Write the folder, which must not be there or be empty. InputError for a dtype without a format code, and if a file cannot be
    written.
    """
    signature = content.signature
    ports = (*signature.inputs, *signature.outputs)
    if missing := next((port for port in ports if port.dtype not in CODES), None):
        raise InputError("E1004", f"{missing} has no format code in {INFO}")
    parameters = _moved_constants(content.module)
    name = re.sub(r"\W", "_", module_name(content.module))
    count = len(content.inputs)
    tiles = tile_packets(content.programs, chip)
    streams = streams_of(signature.inputs, signature.outputs, tiles, content.chips, count, chip)
    entries = [_info(number, signature, len(parameters), chip, content.scratch_bytes) for number in range(count)]
    info = {"chip": entries, "chip_num": count, "chip_x": content.mesh.columns, "chip_y": content.mesh.rows}
    files: dict[Path, bytes] = {
        folder / INFO: json.dumps(info, indent=3).encode() + b"\n",
        folder / f"{name}.mlir": (str(content.module) + "\n").encode(),
    }
    for number in range(count):
        data = folder / _data(number)
        files |= {
            data.parent / "StreamConfigMap.txt": stream_config(streams[number], chip).encode(),
            data / "param.bin": parameters,
            **{data / f"in{k}.bin": np.ascontiguousarray(a).tobytes() for k, a in enumerate(content.inputs[number])},
            **{data / f"out{k}_ref.bin": np.ascontiguousarray(a).tobytes() for k, a in enumerate(content.results[number])},
        }
    with writing(folder):
        if folder.exists() and any(folder.iterdir()):
            raise InputError("E1004", f"{folder} is not empty")
        for path, written in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(written)
        if content.main is not None:
            write_main(folder, content.main, chip, name)


def _data(number: int) -> str:
    return f"chip{number}/agent/data"


def _moved_constants(module: ModuleOp) -> bytes:
    """Turns constants that are not one number everywhere into LoadConst of the bytes that it returns; equal ones are there once."""
    places: dict[LiteralAttr, tuple[int, int]] = {}
    data = bytearray()
    for op in [*module.walk()]:
        value = op.attributes.get("value") if op.name == "tx8be.Constant" else None
        if not isinstance(value, LiteralAttr) or not value.array.ndim:
            continue
        if value not in places:
            places[value] = len(places), len(data)
            data += value.broadcast(shape_of(op.results[0])).tobytes()
        number, offset = places[value]
        kept = {key: attribute for key, attribute in op.attributes.items() if key != "value"}
        made = OPS["LoadConst"]([], [op.results[0].type], {"const_map_id": number, "offset": offset, **kept})
        Rewriter.replace_op(op, made)
    return bytes(data)


def _info(number: int, signature: Signature, param_bytes: int, chip: Chip, scratch_bytes: int) -> dict[str, Any]:
    rows, columns = chip.mesh
    data = _data(number)
    refs = [f"{data}/out{k}_ref.bin" for k in range(len(signature.outputs))]
    return {
        "imm_size": scratch_bytes,
        "input_file": [f"{data}/in{k}.bin" for k in range(len(signature.inputs))],
        "input_num": len(signature.inputs),
        "input_size": [port.size_bytes for port in signature.inputs],
        "input_tensor": [_tensor(port) for port in signature.inputs],
        "output_file": [f"{data}/out{k}_cmodel.bin" for k in range(len(signature.outputs))],
        "output_num": len(signature.outputs),
        "output_ref_file": refs,
        "output_size": [port.size_bytes for port in signature.outputs],
        "output_tensor": [{**_tensor(port), "inplace": -1} for port in signature.outputs],
        "param_file": [f"{data}/param.bin"],
        "param_num": 1,
        "param_size": [param_bytes],
        "tile_num": chip.tiles,
        "tile_x": columns,
        "tile_y": rows,
    }


def _tensor(port: Port) -> dict[str, Any]:
    layout = ACTIVATION if len(port.shape) > 2 else 0
    return {"dim": len(port.shape), "dtype": CODES[port.dtype], "layout": layout, "shape": [*port.shape]}
