"""What bounds the slowest kernels, and where memory goes, as sentences with figures."""

from collections.abc import Iterator

from hlo2tx8.device.isa.encoding import origins_of
from hlo2tx8.device.program import Slot, SlotKind
from hlo2tx8.device.timing import Report, report_of
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.runtime.memory import MemoryUse, SlotLife, memory_use
from hlo2tx8.runtime.profile import grouped
from hlo2tx8.tools.engines import launched
from hlo2tx8.tools.table import Table, count, percent, size

MOST_VALUES = 3
MOST_ROWS = 12


def slowest(executable: Executable, number: int) -> Iterator[str]:
    """A few sentences about each of the kernels that take longest: what bounds it, what it reads again, what waits for what."""
    report, program = executable.report, executable.program
    origins = origins_of(program.code, program.origins)
    use, often = memory_use(program), launched(program)
    found = grouped(program, report, origins)
    kernels = [(name, source, report_of(program, executable.chip, parts)) for (name, source), parts in found]
    ranked = sorted(kernels, key=lambda kernel: -kernel[2].cycles)
    follow = "s follow each other" if len(kernels) > 1 else ""
    yield f"{executable.name} takes {count(report.cycles)} cycles, {len(kernels)} kernel{follow}. {_beyond(executable)}"
    for place, (name, source, own) in enumerate(ranked[: number or None], 1):
        times = sum(often.get(part, (0, ""))[0] for part in name.split(", "))
        where = f" ({source.rpartition('/')[2]})" if source else ""
        launches = f", {times} launches" if times > 1 else ""
        yield f"{place}. {name}{where}: {count(own.cycles)} cycles, {percent(own.cycles / report.cycles)} of the program{launches}."
        yield from (f"   {line}" for line in (*_bound(own), *_moved(own, use, name, times), *_waiting(own)))


def _beyond(executable: Executable) -> str:
    bound = executable.lower_bound
    if bound is None:
        return ""
    most = max(executable.lost_cycles().items(), key=lambda item: item[1])
    lost = f", most beyond it are {most[0]}, {count(most[1])} cycles" if most[1] >= 1 else ""
    return f"Any program takes at least {count(bound.cycles)}, bound by {bound.resource}{lost}."


def _bound(own: Report) -> Iterator[str]:
    shares = dict(own.bounds)
    after = f"; without it {own.next_bound} would, {percent(shares[own.next_bound])}" if own.next_bound else ""
    yield f"{own.bound} bounds it, busy {percent(shares[own.bound])} of that time{after}."


def _moved(own: Report, use: MemoryUse, name: str, times: int) -> Iterator[str]:
    """What goes through DDR, beside the tensors that its launches, that many, touch."""
    names = name.split(", ")
    numbers = [number for number, launch in enumerate(use.launches) if launch.name in names]
    touched = [life.slot for life in use.slots if any(life.first <= n <= life.last for n in numbers)]
    if own.ddr_bytes:
        cycles = own.ddr_bytes / own.ddr_bytes_per_cycle
        short = own.ddr_cycles - cycles
        runs = f"; short runs cost {count(short)} cycles more" if short >= 1 else ""
        yield f"It moves {size(own.ddr_bytes, 'B')} from and to DDR, {count(cycles)} cycles at its rate{runs}."
    again = own.ddr_bytes - times * sum(slot.size_bytes for slot in touched)
    if again > 0 and touched:
        least = count(again / own.ddr_bytes_per_cycle)
        yield f"At least {size(again, 'B')} of that are read or written again, {least} cycles: its tensors have no more."


def _waiting(own: Report) -> Iterator[str]:
    longest = max(own.ddr_cycles, *own.busy.values(), 0.0)
    idle = own.cycles - longest
    if idle < 1:
        return
    blocked = [
        (cycles, engine, cause) for engine, c in own.engines.items() for cause, cycles in c.blocked_cycles.items() if engine != "KC"
    ]
    cycles, engine, cause = max(blocked, default=(0.0, "", ""))
    most = f"; most of all {engine} waits for {cause}, {count(cycles)} cycles" if cycles >= 1 else ""
    yield f"In {count(idle)} cycles its busiest resource has nothing to do: starts, barriers, work in series{most}."


def memory(executable: Executable) -> Iterator[str]:
    """Where DDR and scratchpad go: slots by kind with their values and lives, buffers where the scratchpad is fullest."""
    use, chip = memory_use(executable.program), executable.chip
    total = sum(s.slot.size_bytes for s in use.slots if s.slot.takes_over is None)
    yield f"DDR: {size(total, 'B')} of {size(chip.ddr_bytes, 'B')}, and {size(executable.program.code_bytes, 'B')} of program."
    for kind in SlotKind:
        if of_kind := use.of(kind):
            yield from _slots(kind, of_kind, use)
    peak = use.scratchpad
    if peak is None:
        yield "SPM: nobody named the buffers of this program."
        return
    limit = chip.spm_limit - chip.spm_allocation_start
    used = f"{size(peak.size_bytes, 'B')} of {size(limit, 'B')} per tile"
    yield f"SPM: buffers of {used} are alive at once, in {use.launch_name(peak.launch)}:"
    rows = [(b.name, count(b.size_bytes), str(b.copies), hex(b.address)) for b in peak.buffers[:MOST_ROWS]]
    yield Table(("buffer", ">bytes", ">copies", ">address"), rows).text(is_terminal=False).rstrip()
    if len(peak.buffers) > MOST_ROWS:
        yield f"and {len(peak.buffers) - MOST_ROWS} smaller ones"


def _slots(kind: SlotKind, lives: tuple[SlotLife, ...], use: MemoryUse) -> Iterator[str]:
    total = size(sum(life.slot.size_bytes for life in lives), "B")
    donated = [life.slot for life in lives if life.slot.takes_over is not None]
    alias = f", {size(sum(s.size_bytes for s in donated), 'B')} in memory that inputs donate" if donated else ""
    most = ""
    if kind is SlotKind.SCRATCH:
        where = use.launch_name(use.scratch_launch)
        most = f", at most {size(use.scratch_bytes, 'B')} of them alive at once{f', in {where}' if where else ''}"
    yield f"{len(lives)} {kind.value} slot{'s' if len(lives) > 1 else ''}, {total}{alias}{most}:"
    shown = lives[:MOST_ROWS]
    rows = [(s.slot.name, _type(s.slot), count(s.slot.size_bytes), _values(s), _life(s, use)) for s in shown]
    yield Table(("slot", "type", ">bytes", "values", "from kernel to kernel"), rows).text(is_terminal=False).rstrip()
    if len(lives) > MOST_ROWS:
        yield f"and {len(lives) - MOST_ROWS} smaller ones"


def _type(slot: Slot) -> str:
    shape = ",".join(map(str, slot.shape))
    return f"{slot.dtype}[{shape}]{f', is input{slot.takes_over}' if slot.takes_over is not None else ''}"


def _values(life: SlotLife) -> str:
    more = len(life.values) - MOST_VALUES
    return ", ".join(life.values[:MOST_VALUES]) + (f", {more} more" if more > 0 else "")


def _life(life: SlotLife, use: MemoryUse) -> str:
    if life.first < 0:
        return "no record names it"
    first, last = use.launch_name(life.first), use.launch_name(life.last)
    return first if life.first == life.last else f"{first} to {last}"
