"""All kernels of a module as records: those that were compiled, and those that somebody wrote, of which the records are given."""

import base64
import zlib
from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr

from hlo2tx8.device.isa.encoding import RECORD_WORDS, decode_records
from hlo2tx8.device.isa.fields import SPM_ROLES
from hlo2tx8.device.program import Buffer, BufferUse, LibraryKernel
from hlo2tx8.dialects.launch import LIBRARY, LibraryKernelOp, kernels, library_kernels
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.lower.encode.encode import EncodedKernel, encode


def encode_all(module: ModuleOp, known: Mapping[ModuleOp, EncodedKernel] | None = None) -> dict[str, EncodedKernel]:
    """The records of all kernels of a module at PROGRAM, by name; of some they may be known."""
    known = known or {}
    compiled = {name: known.get(kernel) or encode(kernel) for name, kernel in kernels(module).items()}
    return compiled | {name: _given(kernel) for name, kernel in library_kernels(module).items()}


def registered_kernels(module: ModuleOp) -> tuple[LibraryKernel, ...]:
    """The kernels of a module that somebody had registered, with what made them."""
    titles = {name: kernel.kernel for name, kernel in library_kernels(module).items()}
    titles |= {
        name: title for name, kernel in kernels(module).items() if isinstance(title := kernel.attributes.get(LIBRARY), StringAttr)
    }
    parted = {name: title.data.partition(" ") for name, title in titles.items()}
    return tuple(LibraryKernel(name, function, version) for name, (function, _, version) in parted.items())


def _given(kernel: LibraryKernelOp) -> EncodedKernel:
    """The records that a library kernel has. All of the scratchpad that it uses is one buffer, alive from its first record to its
    last, so nothing is loaded there before it begins."""
    words = np.frombuffer(zlib.decompress(base64.b64decode(kernel.records.data)), np.uint64).reshape(-1, RECORD_WORDS)
    records = tuple(decode_records(words, ("",)))
    uses = [
        BufferUse(number, operand, 0)
        for number, record in enumerate(records)
        for operand, field in enumerate(record.kind.FIELDS)
        if field.role in SPM_ROLES
    ]
    start, end = kernel.spm.get_values()
    buffers = (Buffer(kernel.sym_name.data, start, end - start, 1, end - start, 0, len(records) - 1),)
    scratch = tuple(as_tensor(type_) for type_ in kernel.scratch)
    last = kernel.body.block.last_op
    assert last is not None
    return EncodedKernel(records, len(kernel.body.block.args) + len(last.operands), scratch, buffers, tuple(uses))
