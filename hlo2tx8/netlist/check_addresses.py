"""Where buffers of queues and rams lie: those that are there at the same time share no bytes, but for rams under two names."""

from collections.abc import Iterator

from hlo2tx8.netlist.checks import Examined, Problem
from hlo2tx8.netlist.formats import tile_bytes
from hlo2tx8.netlist.instances import devices_of, expand
from hlo2tx8.netlist.instructions import Lifetime
from hlo2tx8.netlist.model import Netlist, Queue


def overlaps_of(netlist: Netlist, arch: str) -> list[Problem]:
    """Every queue or ram that begins within another one of its memory; those that programs allocate are left out.

    A run on the emulator gives each IO memory of its own, so that a netlist with such addresses can be run.
    """
    subject = Examined(expand(netlist), arch)
    lives = {
        name for program in subject.netlist.programs for i in program.instructions if isinstance(i, Lifetime) for name in i.queues
    }
    queues = [queue for queue in subject.netlist.queues.values() if queue.name not in lives]
    before: tuple[object, int, str] = None, 0, ""
    for place, start, end, name in sorted((*span, queue.name) for queue in queues for span in _spans(subject, queue)):
        if place == before[0] and start < before[1] and not _may_share(subject, name, before[2]):
            queue = subject.netlist.queues[name]
            message = f"queue {name}: field {queue.loc}: {start:#x} lies in {before[2]}, which ends at {before[1]:#x}"
            subject.add(message, queue.line)
        if place != before[0] or end > before[1]:
            before = place, end, name
    return list(dict.fromkeys(subject.problems))


def _may_share(subject: Examined, one: str, other: str) -> bool:
    """Rams of the same addresses are one under two names."""
    a, b = subject.netlist.queues[one], subject.netlist.queues[other]
    return one == other or (a.is_ram and b.is_ram and a.addresses == b.addresses)


def _spans(subject: Examined, queue: Queue) -> Iterator[tuple[tuple[int, str, int], int, int]]:
    """Device, memory and channel of each buffer, and its bytes from the first on to the one behind the last."""
    align = 64 if subject.arch == "blackhole" else 32
    producer = subject.ops.get(queue.input)
    has_header = not queue.is_flat and not (producer is not None and producer.untilize_output)
    rows, columns = queue.grid_size
    size = align + queue.entries * queue.shape.num_tiles // (rows * columns) * tile_bytes(
        queue.df, queue.tile_dim, align, has_header=has_header
    )
    for at in queue.addresses:
        channel, start = at if isinstance(at, tuple) else (0, at)
        yield (devices_of(queue.target_device)[0], queue.loc, channel), start, start + size
