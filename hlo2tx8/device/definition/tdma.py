"""The definition of TDMA on whole tensors: elements are opaque, all are read before any is written."""

from math import prod

import numpy as np

from hlo2tx8.device.definition.tile_machine import TileMachine
from hlo2tx8.device.isa import tdma
from hlo2tx8.device.isa.ct_reduce import ReduceDim
from hlo2tx8.device.isa.encoding import Record
from hlo2tx8.device.isa.fields import Operands
from hlo2tx8.device.isa.window import dilation, num_windows


def _read(m: TileMachine, o: Operands, name: str, shape: tdma.Shape) -> np.ndarray:
    return m.spm.read(o[name], prod(shape) * o.fmt.bytes, m.place).view(f"V{o.fmt.bytes}").reshape(shape)


def _write(m: TileMachine, o: Operands, values: np.ndarray) -> None:
    m.spm.write(o["dst"], np.frombuffer(values.tobytes(), np.uint8), m.place)


def permute(m: TileMachine, record: Record, o: Operands) -> None:
    """dst = src with its axes permuted and some of them reversed."""
    kind = record.kind
    assert issubclass(kind, tdma.TdmaPermute)
    source = _read(m, o, "src", tuple(o[name] for name in kind.NAMES))
    _write(m, o, np.flip(source.transpose(kind.AXES), kind.FLIPPED))


def concat(m: TileMachine, record: Record, o: Operands) -> None:
    """dst = two tensors behind each other along an axis."""
    a, b = _read(m, o, "a", tdma.source_shape(o)), _read(m, o, "b", tdma.second_shape(o))
    _write(m, o, np.concatenate([a, b], tdma.JOINED[ReduceDim(o["dim"])]))


def pad(m: TileMachine, record: Record, o: Operands) -> None:
    """dst = src with constant elements around it."""
    source = _read(m, o, "src", tdma.source_shape(o))
    shape, size = tdma.padded_shape(o), o.fmt.bytes
    m.spm.check(o["dst"], prod(shape) * size, m.place)
    value = (o["value"] & ((1 << 64) - 1)).to_bytes(8, "little")[:size].ljust(size, b"\0")
    padded = np.full(shape, np.void(value), source.dtype)
    padded[:, o["pad_top"] : o["pad_top"] + o["h"], o["pad_left"] : o["pad_left"] + o["w"]] = source
    _write(m, o, padded)


def channel_norm(m: TileMachine, record: Record, o: Operands) -> None:
    """dst = a compact tensor in the channel-blocked layout."""
    layout = tdma.blocked_layout(o)
    m.write_blocked(o["dst"], layout, _read(m, o, "src", (layout.batch, layout.points, layout.channels)))


def unfold(m: TileMachine, record: Record, o: Operands) -> None:
    """Every element of a window is the padded image, shifted and strided."""
    source = _read(m, o, "src", tdma.source_shape(o))
    m.spm.check(o["dst"], prod(tdma.unfolded_shape(o)) * o.fmt.bytes, m.place)
    padded = np.zeros(tdma.padded_shape(o), source.dtype)
    padded[:, o["pad_top"] : o["pad_top"] + o["h"], o["pad_left"] : o["pad_left"] + o["w"]] = source
    ys, xs = (np.arange(num_windows(o, axis, dilation)) * o[f"stride_{axis}"] for axis in "hw")
    taps = [
        padded[:, (ys + ky * o["dilation_h"])[:, None], xs + kx * o["dilation_w"]]
        for ky in range(o["kernel_h"])
        for kx in range(o["kernel_w"])
    ]
    _write(m, o, np.concatenate(taps, 3))
