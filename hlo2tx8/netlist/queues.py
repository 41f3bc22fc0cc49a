"""Queues and rams while a netlist runs: slots, pointers, and storage that several rams share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hlo2tx8.errors import NetlistRunError
from hlo2tx8.netlist.model import Queue
from hlo2tx8.netlist.tensors import Tensor


@dataclass(frozen=True)
class Pointers:
    """The settings of one execution with the values of their variables."""

    prologue: bool = False
    epilogue: bool = False
    zero: bool = False
    rd_ptr_local: int = 0
    rd_ptr_global: int = 0
    wr_ptr_global: int = 0
    rd_ptr_autoinc: int = 1
    global_rdptr_autoinc: int = 0
    global_wrptr_autoinc: int = 0
    read_only: bool = False

    @property
    def is_constant(self) -> bool:
        return self.prologue or self.epilogue


@dataclass
class Io:
    """A queue or ram. Pointers of a queue count modulo twice its entries, those of a ram are slots.

    `shared` is the ram whose slots it sees `per_slot` at a time, stacked along z. `refill` makes what the host writes where nothing
    is, if the host does so while programs run. `taken` are entries that such a host has popped of a full queue.
    """

    queue: Queue
    slots: dict[int, Tensor] = field(default_factory=dict[int, Tensor])
    read: int = 0
    write: int = 0
    local: int = 0
    current: Pointers = field(default_factory=Pointers)
    was_executed: bool = False
    is_zeroed: bool = False
    shared: "Io | None" = None
    per_slot: int = 1
    refill: Callable[[], Tensor] | None = None
    taken: list[Tensor] | None = None

    @property
    def wrap(self) -> int:
        return self.queue.entries if self.queue.is_ram else 2 * self.queue.entries

    @property
    def occupancy(self) -> int:
        """Entries of a queue that are pushed and not popped."""
        return (self.write - self.read) % self.wrap

    def reset(self) -> None:
        """As it is when it is allocated."""
        self.read = self.write = self.local = 0
        self.was_executed = False
        if self.shared is None:
            self.slots.clear()

    def begin(self, pointers: Pointers) -> None:
        """An execution with these settings begins. NetlistRunError for a slot that a ram does not have."""
        self.current = pointers
        if self.queue.is_ram:
            self.read = self._slot(pointers.rd_ptr_global)
            if not (pointers.read_only and self.was_executed):
                self.write = self._slot(pointers.wr_ptr_global)
        else:
            self.move(pointers.rd_ptr_global)
            self.local = pointers.rd_ptr_local % self.wrap
        if pointers.zero:
            self.is_zeroed = True
            slots = (self.shared or self).slots
            slots |= {number: replace(tensor, data=np.zeros_like(tensor.data)) for number, tensor in slots.items()}
        self.was_executed = True

    def _slot(self, pointer: int) -> int:
        if not 0 <= pointer < self.queue.entries:
            raise NetlistRunError(f"ram {self.queue.name}: there is no slot {pointer} of {self.queue.entries}")
        return pointer

    def move(self, pointer: int) -> None:
        """The read pointer goes on: what it passes is popped."""
        pointer %= self.wrap
        if self.refill is not None:
            while self.occupancy < (pointer - self.read) % self.wrap <= self.queue.entries:
                self.push(self.refill())
        self.read = pointer

    def end(self) -> None:
        """The execution has ended."""
        if not self.queue.is_ram:
            self.local = self.read

    def get(self) -> Tensor:
        """What a graph reads for one input."""
        at = self.read if self.queue.is_ram else self.local
        return self.entry(at)

    def next_input(self, is_read: bool) -> None:
        """After an input of an execution: read pointers go on as the settings say."""
        if self.queue.is_ram:
            if is_read and not self.current.is_constant:
                self.read = (self.read + self.current.global_rdptr_autoinc) % self.wrap
            return
        if is_read and not self.current.is_constant:
            self.local = (self.local + self.current.rd_ptr_autoinc) % self.wrap
        if self.current.global_rdptr_autoinc:
            self.move(self.read + self.current.global_rdptr_autoinc)

    def entry(self, pointer: int) -> Tensor:
        """What lies where a pointer points. NetlistRunError if nothing does."""
        slot, is_queue = pointer % self.queue.entries, not self.queue.is_ram
        if self.refill is not None:
            while is_queue and (pointer - self.read) % self.wrap >= self.occupancy < self.queue.entries:
                self.push(self.refill())
            if self.queue.is_ram and not self._is_full(slot):
                self.put(slot, self.refill())
        if not self._is_full(slot) or (is_queue and (pointer - self.read) % self.wrap >= self.occupancy):
            raise NetlistRunError(f"{self.queue.type} {self.queue.name}: nothing was pushed where {pointer} reads")
        slots = (self.shared or self).slots
        found = [slots[slot * self.per_slot + number] for number in range(self.per_slot)]
        return found[0] if len(found) == 1 else Tensor(np.concatenate([part.data for part in found]), found[0].format)

    def _is_full(self, slot: int) -> bool:
        slots = (self.shared or self).slots
        return all(slot * self.per_slot + number in slots for number in range(self.per_slot))

    def push(self, tensor: Tensor) -> None:
        """Write one entry. NetlistRunError if a queue is full."""
        if not self.queue.is_ram and self.occupancy >= self.queue.entries:
            if self.taken is None:
                raise NetlistRunError(f"queue {self.queue.name}: is full with {self.queue.entries} entries")
            self.taken.append(self.entry(self.read))
            self.read = (self.read + 1) % self.wrap
        self.put(self.write % self.queue.entries, tensor)
        step = self.current.global_wrptr_autoinc if self.queue.is_ram else 1
        self.write = (self.write + step) % self.wrap

    def put(self, slot: int, tensor: Tensor) -> None:
        """Write a slot, and no pointer."""
        base, per_slot = self.shared or self, self.per_slot
        for number, part in enumerate(np.split(tensor.data, per_slot) if per_slot > 1 else [tensor.data]):
            base.slots[slot * per_slot + number] = Tensor(part, tensor.format)

    def left(self) -> list[Tensor | None]:
        """What the host finds at the end: of a queue the entries that are not popped, of a ram all slots, None where nothing is."""
        if not self.queue.is_ram:
            return [*(self.taken or ()), *(self.entry(self.read + number) for number in range(self.occupancy))]
        return [self.entry(slot) if self._is_full(slot) else None for slot in range(self.queue.entries)]


def make_ios(queues: Mapping[str, Queue], dynamic: frozenset[str]) -> dict[str, Io]:
    """Every queue and ram, empty. Rams of a device with the same addresses share storage, unless programs allocate them."""
    ios = {name: Io(queue) for name, queue in queues.items()}
    bases: dict[object, Io] = {}
    rams = [io for io in ios.values() if io.queue.is_ram and io.queue.name not in dynamic]
    for io in sorted(rams, key=lambda io: -io.queue.entries):
        key = (io.queue.target_device, io.queue.loc, io.queue.addresses)
        base = bases.setdefault(key, io)
        totals = {ram.entries * ram.shape.num_tiles for ram in (base.queue, io.queue)}
        if base is not io and len(totals) == 1 and base.queue.entries % io.queue.entries == 0:
            io.shared, io.per_slot = base, base.queue.entries // io.queue.entries
    return ios
