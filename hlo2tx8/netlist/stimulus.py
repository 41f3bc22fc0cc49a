"""What the host pushes where no inputs are given: tensors as the section stimulus-config says, the same for the same seed."""

import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

import numpy as np

from hlo2tx8.errors import NetlistError
from hlo2tx8.netlist.config import Comparison, Stimulus
from hlo2tx8.netlist.formats import Array, round_to
from hlo2tx8.netlist.infer import input_shape
from hlo2tx8.netlist.model import Netlist, Op, Queue
from hlo2tx8.netlist.products import LAST_OF_TILE, LAST_OF_Z, WORDS_OF_TILE
from hlo2tx8.netlist.shapes import TILE
from hlo2tx8.netlist.tensors import from_tiles, to_plain

LARGEST = float(np.finfo(np.float32).max) / 2
MOST = 1 << 40
LEAST_STRIP = 3
"""Words of a strip of an encoding that adds nothing."""
Config = TypeVar("Config", Stimulus, Comparison)


def config_of(config: Config, queue: Queue) -> Config:
    """What an override says of an IO: one of its name, the first whose pattern is its whole name, else the section itself."""
    overrides: Mapping[str, Any] = config.overrides
    for name in filter(None, (queue.name, queue.instance_of)):
        if name in overrides:
            return overrides[name]
    for pattern, override in overrides.items():
        try:
            if re.fullmatch(pattern, queue.name):
                return override
        except re.error:
            continue
    return config


@dataclass
class Pushes:
    """Tensors [t, rows, columns] for one IO, one after the other, exact in its format; none negative if told so."""

    netlist: Netlist
    queue: Queue
    stimulus: Stimulus
    is_positive: bool = False
    random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(zlib.crc32(self.queue.name.encode()))

    def next(self) -> Array:
        """The next tensor, float32 or, of raw formats, uint32. NetlistError for a kind that there is not."""
        if (kind := self.stimulus.type) not in _KINDS:
            self.refuse(f"unknown stimulus type {kind!r}")
        made = np.broadcast_to(_KINDS[kind](self), self.queue.host_shape)
        rows, columns = self.stimulus.set_tile_rows, self.stimulus.set_tile_cols
        if (rows or columns) and kind in ("Uniform", "Normal", "Constant"):
            made = made * np.outer(_within(made.shape[1], rows), _within(made.shape[2], columns))
        return exact_in(np.abs(made) if self.is_positive else made, self.queue)

    def refuse(self, message: str) -> NoReturn:
        """NetlistError about the IO."""
        raise NetlistError(f"queue {self.queue.name}: {message}", origin=f"{self.netlist.file}:{self.queue.line}")

    @property
    def op(self) -> Op:
        """The sparse product that the tensors are for."""
        op = self.netlist.ops.get(self.stimulus.matmul_ident_name)
        if op is None or not op.attributes.get("identity"):
            self.refuse("matmul_ident_name names no sparse matmul")
        return op


def exact_in(made: Array, queue: Queue) -> Array:
    """A host's tensor in the IO's format."""
    if queue.df.family == "raw":
        return np.asarray(np.mod(made.astype(np.int64), 1 << queue.df.bits), np.uint32)
    if queue.df.family != "block":
        return round_to(np.asarray(made, np.float32), queue.df)
    columns = -made.shape[2] % 16
    padded = np.pad(np.asarray(made, np.float32), ((0, 0), (0, 0), (0, columns)))
    return round_to(padded, queue.df)[..., : made.shape[2]]


def _within(size: int, limits: tuple[int, ...]) -> Array:
    """Which rows or columns lie in the range of their tile, counted from 1."""
    first, last = limits or (1, TILE)
    at = np.arange(size) % TILE + 1
    return (at >= first) & (at <= last)


def _uniform(source: Pushes) -> Array:
    bounds, shape = (source.stimulus.uniform_lower_bound, source.stimulus.uniform_upper_bound), source.queue.host_shape
    low, high = sorted(min(max(float(np.nan_to_num(bound)), -LARGEST), LARGEST) for bound in bounds)
    if source.queue.df.is_integer:
        least, most = (int(min(max(bound, -MOST), MOST)) for bound in (np.ceil(low), np.floor(high)))
        return source.random.integers(least, max(least, most), shape, endpoint=True)
    return source.random.uniform(low, high, shape).astype(np.float32)


def _normal(source: Pushes) -> Array:
    mean, deviation = source.stimulus.normal_mean, abs(source.stimulus.normal_stddev)
    return source.random.normal(mean, deviation, source.queue.host_shape).astype(np.float32)


def _tiles(source: Pushes) -> Array:
    """Number of the tile of every element, in the order z, row, column."""
    (t, rows, columns), (height, width) = source.queue.host_shape, source.queue.tile_dim
    number = np.arange(t * (rows // height) * (columns // width)).reshape(t, rows // height, columns // width)
    return number.repeat(height, axis=1).repeat(width, axis=2)


def _steps(source: Pushes) -> Array:
    (_, rows, columns), (height, width) = source.queue.host_shape, source.queue.tile_dim
    within = (np.arange(rows) % height)[:, None] * width + np.arange(columns) % width
    return source.stimulus.step_start + source.stimulus.step_increment * (_tiles(source) * (height * width) + within)


def _steps_along(size: int, source: Pushes) -> Array:
    at = np.arange(size)
    return source.stimulus.step_start + TILE * (at // TILE) + source.stimulus.step_increment * (at % TILE)


def _sparse(source: Pushes) -> Array:
    """One 1 in each row of every tile."""
    shape = source.queue.shape
    chosen = source.random.integers(0, TILE, (shape.z, shape.rt, shape.ct, TILE))
    return to_plain(from_tiles((chosen[..., None] == np.arange(TILE)).astype(np.float32)), source.queue)


def _encoding(source: Pushes) -> Array:
    """For every share of the tensor an encoding of products that the op can do."""
    op, shape = source.op, source.queue.shape
    rows, slabs = op.grid_size[0], op.attributes.get("fracture_factor", 1)
    high, wide = shape.rt // rows, shape.ct // slabs
    if not high or not wide:
        source.refuse(f"its tiles do not split over the grid of op {op.name}")
    tiles = np.zeros((shape.z, shape.rt, shape.ct, TILE, TILE), np.uint32)
    for row in range(rows):
        for slab in range(slabs):
            words = _encode(source, op, high * wide)
            share = words.view(np.uint32).reshape(high, wide, TILE, TILE)
            tiles[0, row * high : (row + 1) * high, slab * wide : (slab + 1) * wide] = share
    return to_plain(from_tiles(tiles), source.queue)


def _encode(source: Pushes, op: Op, num_tiles: int) -> Array:
    """An encoding of so many tiles at most, as 16-bit words."""
    words = np.zeros(num_tiles * WORDS_OF_TILE, np.uint16)
    is_by_z, inner = op.attributes.get("act_t", op.t) == op.t, op.attributes["u_kt"]
    read = source.netlist.queues.get(op.inputs[1]) or source.netlist.ops[op.inputs[1]]
    there_are = input_shape(op, 1, read.shape)
    steps = max(1, min(op.attributes["m_k"], there_are.z * there_are.rt // inner // (op.t if is_by_z else 1)))
    steps = max(1, min(steps, num_tiles * (WORDS_OF_TILE // LEAST_STRIP) // op.t))
    z_steps = steps if is_by_z else 0
    strips = [
        (z * z_steps + strip, last == 0)
        for z in range(op.t)
        for last, strip in reversed(list(enumerate(sorted(_chosen(source, steps, source.stimulus.zero_strip_freq), reverse=True))))
    ]
    share = WORDS_OF_TILE // -(-len(strips) // num_tiles)  # of a strip, so that as many are in every tile
    if share < LEAST_STRIP:
        source.refuse(f"has no room for the encoding of op {op.name}")
    at, before = 0, -1
    for index, is_last in strips:
        room, body = WORDS_OF_TILE - at % WORDS_OF_TILE, _strip(source, op, share - 2)
        if len(body) + 2 > room:
            words[before + 1] |= LAST_OF_TILE
            at += room
        words[at : at + 2 + len(body)] = [index & 0xFFFF, index >> 16 | (LAST_OF_Z if is_last else 0), *body]
        before, at = at, at + 2 + len(body)
    return words


def _chosen(source: Pushes, count: int, zero: float) -> list[int]:
    """Some of so many, at least one; each is left out with a probability."""
    found = np.flatnonzero(source.random.random(count) >= zero).tolist()
    return found or [int(source.random.integers(count))]


def _strip(source: Pushes, op: Op, most: int) -> list[int]:
    """Number of ublocks, and for each its word and those of its tiles: so many words at most."""
    pointer = op.attributes.get("sparse_tile_ptr_bits", 8)
    block_bits = op.attributes.get("sparse_ublock_idx_bits", pointer)
    inner = op.attributes["u_kt"]
    depth_bits = max(1, (inner - 1).bit_length())
    limit = min(op.attributes.get("num_sparse_tiles", 1) or 1, 1 << pointer)
    words = [0]
    for block in _chosen(source, op.mblock[0], source.stimulus.zero_ublock_freq):
        places = _chosen(source, op.ublock[0] * inner, source.stimulus.zero_tile_freq)[: max(0, most - len(words) - 1)]
        if not places:
            break
        tiles = source.random.integers(0, limit, len(places)).tolist()
        words += [block | len(places) % (1 << (16 - block_bits)) << block_bits]
        words += [(at // inner) << depth_bits | at % inner | tile << (16 - pointer) for at, tile in zip(places, tiles, strict=True)]
        words[0] += 1
    return words


_KINDS: Mapping[str, Callable[[Pushes], Array]] = {
    "Uniform": _uniform,
    "Normal": _normal,
    "Constant": lambda s: np.full(s.queue.host_shape, s.stimulus.constant_value),
    "DebugTileId": lambda s: s.stimulus.debug_tile_id_base + s.stimulus.debug_tile_id_step * _tiles(s),
    "Step": _steps,
    "StepRowwise": lambda s: _steps_along(s.queue.host_shape[2], s),
    "StepColumnwise": lambda s: _steps_along(s.queue.host_shape[1], s)[:, None],
    "sparse": _sparse,
    "sparse_encoding": _encoding,
    "sparse_encoding_nz_counts": _encoding,
}
