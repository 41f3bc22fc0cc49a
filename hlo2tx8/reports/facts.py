"""All that a page shows of one program, as plain values: from the compiled program and the timing model, nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hlo2tx8.compiler.garbage_collection import no_garbage_collection
from hlo2tx8.device.chip import Chip
from hlo2tx8.device.isa.encoding import BEGINS, Record, decode_records
from hlo2tx8.device.isa.fields import Engine
from hlo2tx8.device.rates import Rates
from hlo2tx8.device.timing.notes import NoteKind
from hlo2tx8.link.listing import line
from hlo2tx8.options import Level
from hlo2tx8.reports.groups import group_of_records, group_rows
from hlo2tx8.reports.shown import Shown
from hlo2tx8.reports.sources import files_of, places_of
from hlo2tx8.reports.timeline import ModelledRun
from hlo2tx8.runtime.executable import Executable

FLOPS_16, FLOPS_8 = "NE bf16, fp16, tf32", "NE int8"


@dataclass(frozen=True)
class Facts:
    """`values` are shown at once; `texts`, IR by kernel and level and the module at HLO, when somebody looks at them."""

    name: str
    values: Mapping[str, object]
    texts: Mapping[str, object]


def facts_of(executable: Executable, shown: Shown, name: str = "", file: Path | None = None) -> Facts:
    """What is known of a program, of whose compilation `shown` was shown the IR; `file` is the module's."""
    with no_garbage_collection():  # the compiler's IR may still be there, and is large
        return _facts_of(executable, shown, name, file)


def _facts_of(executable: Executable, shown: Shown, name: str, file: Path | None) -> Facts:
    program, chip = executable.program, executable.chip
    profile = executable.profile()
    report = profile.report
    run = ModelledRun.of(executable)
    records = decode_records(program.code, program.origins)
    group_of = group_of_records(profile, len(records))
    groups = group_rows(program, records, profile, shown, run.spans(group_of, len(profile.fusions) - 1), group_of)
    of_tile, rows, left_out = run.tiles(chip.tiles)
    origins = list(dict.fromkeys([*(r.origin for r in records), *(node[4] for node in shown.graph.nodes)]))
    number = {origin: n for n, origin in enumerate(origins)}
    places = places_of(origins)
    least = executable.lower_bound
    values: dict[str, object] = {
        "name": name or executable.name,
        "module": executable.name,
        "chip": _chip(chip),
        "report": report.as_dict(),
        "lost": dict(profile.lost_cycles),
        "bound": None if least is None else least.as_dict() | {"flops": sum(least.work.products.values())},
        "explanation": list(executable.explanation),
        "memory": executable.memory_analysis(),
        "tiles": [{engine: c.as_dict() for engine, c in tile.items()} for tile in report.tiles],
        "tile_bytes": run.bytes_by_tile(chip.tiles),
        "links": run.bytes_by_link(chip.mesh[-1]),
        "groups": groups,
        "instructions": [row.as_dict() for row in profile.instructions],
        "timeline": {"of_tile": of_tile, "rows": rows, "left_out": left_out, "cut": run.cut},
        "ddr": run.rates(NoteKind.DDR),
        "noc": run.rates(NoteKind.NOC),
        "buffers": [[b.name, b.address, b.end - b.address, b.copies, b.first_record, b.last_record] for b in program.buffers],
        "uses": [[use.record for use in program.uses], [use.buffer for use in program.uses]],
        "slots": [[s.kind.value, s.index, s.dtype, list(s.shape), s.size_bytes, s.name] for s in program.slots],
        "records": _listing(records),
        "record_engines": [int(record.kind.ENGINE) for record in records],
        "record_origins": [number[record.origin] for record in records],
        "record_costs": [[round(c.instructions, 2), round(c.busy_cycles, 1), c.bytes] for c in report.records],
        "origins": places,
        "files": files_of(places, file),
        "graph": {
            "nodes": [[label, types, kernel, fusion, number[place]] for label, types, kernel, fusion, place in shown.graph.nodes],
            "edges": shown.graph.edges,
            "fusions": shown.graph.fusions,
        },
        "engines": [engine.name for engine in Engine],
    }
    return Facts(str(values["name"]), values, _texts(shown))


def _listing(records: Sequence[Record]) -> list[str]:
    """A line of each record without its origin, indented by its blocks."""
    lines: list[str] = []
    depth = 0
    for record in records:
        depth -= record.kind in BEGINS
        lines.append("  " * depth + line(record, has_origin=False))
        depth += record.kind in BEGINS.values()
    return lines


def _texts(shown: Shown) -> dict[str, object]:
    """The module at HLO; texts of kernels at FUSED by their number, and by the name of their launch and level."""
    kernels = [{"fused": text, "name": name} for name, text in shown.graph.kernels]
    for number, name in zip(shown.fused, shown.launched, strict=True):
        if number >= 0:
            kernels[number]["name"] = name
    levels = {name: {level.name.lower(): text for level, text in texts.items()} for name, texts in shown.kernels.items()}
    return {"hlo": shown.hlo, "kernels": kernels, "levels": levels, "order": [level.name.lower() for level in Level]}


def _chip(chip: Chip) -> dict[str, object]:
    """Numbers of the chip that axes and roofs need; rates of all tiles together, per cycle."""
    rates = Rates.of(chip)
    return {
        "name": chip.name,
        "clock_hz": chip.clock_hz,
        "tiles": chip.tiles,
        "mesh": list(chip.mesh),
        "ddr_bytes_per_cycle": chip.ddr_bytes_per_cycle,
        "link_bytes_per_cycle": rates.link,
        "spm_start": chip.spm_allocation_start,
        "spm_limit": chip.spm_limit,
        "roofs": {
            FLOPS_16: 2 * rates.tiles * rates.products,
            FLOPS_8: 2 * rates.tiles * rates.int8_products,
            "CT 16 bit": rates.tiles * rates.vector / 2,
            "CT 32 bit": rates.tiles * rates.vector / 4,
        },
    }
