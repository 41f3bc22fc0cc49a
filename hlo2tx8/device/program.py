"""A program of the machine: encoded records, the DDR slots they address, constants."""

from array import array
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property
from math import prod
from typing import NamedTuple

import numpy as np

from hlo2tx8.device.host_memory import RECYCLED_BYTES


@cache
def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """The numpy dtype of the elements in a slot."""
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


class SlotKind(Enum):
    """What a DDR slot is bound to at launch."""

    INPUT = "input"
    OUTPUT = "output"
    CONSTANT = "constant"
    SCRATCH = "scratch"


@dataclass(frozen=True)
class Slot:
    """A range of DDR. `index` counts within its kind; `dtype` is a name numpy and ml_dtypes know, of elements one byte or wider.

    An output slot that `takes_over` an input has the memory of the input with that index, and holds its contents at the start.
    """

    kind: SlotKind
    index: int
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int
    name: str = ""
    takes_over: int | None = None

    @cached_property
    def element(self) -> np.dtype[np.generic]:
        """The numpy dtype of its elements."""
        return numpy_dtype(self.dtype)

    @property
    def num_elements(self) -> int:
        """Elements of the tensor that the slot holds."""
        return prod(self.shape)


@dataclass(frozen=True)
class Buffer:
    """A named range of SPM, `copies` times, `stride_bytes` apart; alive from its first to its last record."""

    name: str
    address: int
    size_bytes: int
    copies: int
    stride_bytes: int
    first_record: int
    last_record: int

    @property
    def end(self) -> int:
        """Of the last copy."""
        return self.address + (self.copies - 1) * self.stride_bytes + self.size_bytes

    def between(self, first: int, last: int) -> "Buffer":
        """The same, alive from one record to another."""
        return Buffer(self.name, self.address, self.size_bytes, self.copies, self.stride_bytes, first, last)


class BufferUse(NamedTuple):
    """Operand number `operand` of a record is an address in a buffer, an index in the program's table."""

    record: int
    operand: int
    buffer: int


@dataclass(frozen=True)
class Launch:
    """Records of a kernel, an update in place or a copy begin at `first` and go on to the next launch. `origin` is the fusion's."""

    name: str
    origin: str
    first: int


@dataclass(frozen=True)
class LibraryKernel:
    """The launches called `name` are of a kernel that somebody had registered, which that `function` made."""

    name: str
    function: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} by {self.function} {self.version}"


@dataclass(frozen=True)
class Program:
    """`code` is uint64[n, 32]; constants lie in `constants` one array per constant slot, in order of their index. SPM is used up to
    `spm_bytes`.

    `buffers` and `uses` say what the compiler meant by every SPM address, `launches` which records are of which kernel; all are
    empty where nobody said. `library`: kernels that were registered ones. A program that is not `trusted`, such as one from a file,
    finds zeros in the memory it is given: it may read, or leave in its results, what it never wrote.
    """

    code: np.ndarray
    slots: tuple[Slot, ...]
    constants: tuple[np.ndarray, ...]
    origins: tuple[str, ...]
    spm_bytes: int
    buffers: tuple[Buffer, ...] = ()
    uses: tuple[BufferUse, ...] = ()
    launches: tuple[Launch, ...] = ()
    library: tuple[LibraryKernel, ...] = ()
    trusted: bool = True

    def __getstate__(self) -> dict[str, object]:
        """All but addresses, which mean nothing to a copy or in another process."""
        return {name: value for name, value in self.__dict__.items() if name != "looks"}

    def slots_of(self, kind: SlotKind) -> tuple[Slot, ...]:
        """The slots of one kind by index."""
        return self._by_kind[kind]

    @cached_property
    def _by_kind(self) -> dict[SlotKind, tuple[Slot, ...]]:
        ordered = sorted(self.slots, key=lambda slot: slot.index)
        return {kind: tuple(slot for slot in ordered if slot.kind is kind) for kind in SlotKind}

    @cached_property
    def num_inputs(self) -> int:
        """Slots of that kind; asked for in every launch."""
        return len(self._by_kind[SlotKind.INPUT])

    @cached_property
    def given(self) -> tuple[int, ...]:
        """The slots that are bound to something else in every launch: inputs, then outputs, each by index."""
        numbers = {slot: number for number, slot in enumerate(self.slots)}
        return tuple(numbers[slot] for kind in (SlotKind.INPUT, SlotKind.OUTPUT) for slot in self._by_kind[kind])

    @cached_property
    def output_arrays(self) -> tuple[tuple[tuple[int, ...], ...], tuple[np.dtype[np.generic], ...], tuple[Slot, ...]]:
        """Shapes and dtypes of the outputs' arrays, which every launch makes anew: there may be hundreds. No elements for the slots
        that come last, which want memory of another kind.
        """
        slots = self._by_kind[SlotKind.OUTPUT]
        apart = tuple(slot for slot in slots if slot.size_bytes >= RECYCLED_BYTES or slot.takes_over is not None)
        shapes = tuple((0,) if slot in apart else slot.shape for slot in slots)
        return shapes, tuple(slot.element for slot in slots), apart

    @cached_property
    def looks(self) -> "array[int]":
        """What the arrays of `given` look like, as the native core asks: struct look of arguments.c. Dtypes stay where they are. Of
        slots whose shape and size do not agree it is what no array looks like.
        """
        slots = [self.slots[number] for number in self.given]
        dims = [dim for slot in slots for dim in slot.shape]
        table = array("q", bytes(24 * len(slots)) + array("q", dims).tobytes())
        at = table.buffer_info()[0] + 24 * len(slots)
        for number, slot in enumerate(slots):
            fits = slot.num_elements * slot.element.itemsize == slot.size_bytes
            table[3 * number : 3 * number + 3] = array("q", (id(slot.element), len(slot.shape) if fits else -1, at))
            at += 8 * len(slot.shape)
        return table

    @property
    def code_bytes(self) -> int:
        """Bytes of the encoded records."""
        return int(self.code.nbytes)
