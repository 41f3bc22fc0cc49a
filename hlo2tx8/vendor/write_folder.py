"""`write_folder`: a chip folder of a module: description, module in tx8be, streams, inputs, parameters, reference."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.formats import Format
from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.dialects.tx8be import OPS
from hlo2tx8.dialects.tx8be_shapes import shape_of
from hlo2tx8.errors import InputError, writing
from hlo2tx8.frontend.chip_folder import FORMATS, INFO
from hlo2tx8.hlo.module import module_name
from hlo2tx8.hlo.signature import Port, Signature
from hlo2tx8.vendor.stream_config import stream_config

Array = npt.NDArray[Any]
CODES = {dtype: code for code, dtype in FORMATS.items() if code != Format.TF32}
ACTIVATION = 34
"""Layout code of tensors of rank 3 or more that are not parameters; 0 is Unknown."""
AGENT = "chip0/agent"


def write_folder(
    folder: Path,
    module: ModuleOp,
    signature: Signature,
    inputs: Sequence[Array],
    results: Sequence[Array],
    chip: Chip,
    scratch_bytes: int,
) -> None:
    """Write the folder, which must not be there or be empty; `module` is in tx8be, and its constants move to param.bin.

    InputError for a dtype without a format code, and if a file cannot be written.
    """
    ports = (*signature.inputs, *signature.outputs)
    if missing := next((port for port in ports if port.dtype not in CODES), None):
        raise InputError("E1004", f"{missing} has no format code in {INFO}")
    parameters = _moved_constants(module)
    name = re.sub(r"\W", "_", module_name(module))
    with writing(folder):
        if folder.exists() and any(folder.iterdir()):
            raise InputError("E1004", f"{folder} is not empty")
        (data := folder / AGENT / "data").mkdir(parents=True, exist_ok=True)
        files: dict[Path, bytes] = {
            folder / INFO: json.dumps(_info(signature, len(parameters), chip, scratch_bytes), indent=3).encode() + b"\n",
            folder / f"{name}.mlir": (str(module) + "\n").encode(),
            folder / AGENT / "StreamConfigMap.txt": stream_config(signature.inputs, signature.outputs, chip).encode(),
            data / "param.bin": parameters,
            **{data / f"in{k}.bin": np.ascontiguousarray(array).tobytes() for k, array in enumerate(inputs)},
            **{data / f"out{k}_ref.bin": np.ascontiguousarray(array).tobytes() for k, array in enumerate(results)},
        }
        for path, content in files.items():
            path.write_bytes(content)


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


def _info(signature: Signature, param_bytes: int, chip: Chip, scratch_bytes: int) -> dict[str, Any]:
    rows, columns = chip.mesh
    data = f"{AGENT}/data"
    refs = [f"{data}/out{k}_ref.bin" for k in range(len(signature.outputs))]
    one = {
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
    return {"chip": [one], "chip_num": 1, "chip_x": 1, "chip_y": 1}


def _tensor(port: Port) -> dict[str, Any]:
    layout = ACTIVATION if len(port.shape) > 2 else 0
    return {"dim": len(port.shape), "dtype": CODES[port.dtype], "layout": layout, "shape": [*port.shape]}
