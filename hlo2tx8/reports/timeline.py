"""What happens when, as columns of numbers: rows of tiles that do the same at the same times are there once."""

from dataclasses import dataclass

import numpy as np

from hlo2tx8.device.isa.fields import Engine
from hlo2tx8.device.timing.native import time_program
from hlo2tx8.device.timing.notes import NOTE, NoteKind, Notes
from hlo2tx8.device.timing.timeline import Timeline, follow
from hlo2tx8.runtime.executable import Executable

MOST_NOTES = 1 << 20
"""That are asked for; 56 bytes each while the page is made."""
MOST_ROWS = 150_000
"""Of all tiles on the page."""
MOST_SAMPLES = 8_000
FOLLOWED = 4_000
"""Instructions that are followed in Python where the native core cannot."""
IS_DRAWN = (NoteKind.INSTRUCTION, NoteKind.WORK, NoteKind.WAIT, NoteKind.FULL, NoteKind.BARRIER, NoteKind.TURNS)


@dataclass(frozen=True)
class ModelledRun:
    """The modelled run: notes in cycles since the launch began, and what they do not have, in words."""

    rows: np.ndarray
    cut: str

    @staticmethod
    def of(executable: Executable) -> "ModelledRun":
        """The run with the decisions of the last one on the emulator, as in the executable's report."""
        notes, start = Notes(MOST_NOTES), executable.report.launch
        known = time_program(executable.program.code, executable.chip, executable.time.decisions, notes)
        if known is None or not len(notes.rows):  # a core that was built from other sources writes none
            timeline, _ = follow(executable.program, executable.chip, FOLLOWED, executable.time.decisions)
            rows, missing = _from_timeline(timeline), timeline.num_missing
        else:
            rows, missing = notes.rows, notes.num - len(notes.rows)
            for name in ("issue", "ready", "start", "end"):
                rows[name] += start
        turns = int(rows["amount"][rows["what"] == NoteKind.TURNS].sum())
        said = [f"{missing:,} events are not drawn"] if missing else []
        said += [f"{turns:,} turns of steady loops (of all tiles together) are drawn as one gap that says so"] if turns else []
        said += ["loops of unknown length have one turn"] if executable.report.unknown else []
        return ModelledRun(rows, "; ".join(said))

    def tiles(self, num_tiles: int) -> tuple[list[int], list[dict[str, list[float]]], list[int]]:
        """(per tile the number of its rows, -1 without any; all different rows; tiles that had no room), rows' columns by name:
        times in tenths of cycles, `start` as the difference to the row before.
        """
        drawn = self.rows[np.isin(self.rows["what"], IS_DRAWN)]
        drawn = drawn[np.lexsort((drawn["end"], drawn["start"], drawn["tile"]))]
        at = np.searchsorted(drawn["tile"], np.arange(num_tiles + 1))
        numbers: dict[bytes, int] = {}
        found: list[dict[str, list[float]]] = []
        of_tile: list[int] = []
        left_out: list[int] = []
        room = MOST_ROWS
        for tile in range(num_tiles):
            rows = drawn[at[tile] : at[tile + 1]].copy()
            rows["tile"] = 0
            key = rows.tobytes()
            if key not in numbers and len(rows) > room:
                left_out.append(tile)
                of_tile.append(-1)
                continue
            if key not in numbers:
                numbers[key] = len(found)
                found.append(_columns(rows))
                room -= len(rows)
            of_tile.append(numbers[key])
        return of_tile, found, left_out

    def rates(self, kind: NoteKind) -> list[list[float]]:
        """[cycles, bytes per cycle from there on] of the DDR or the NoC; means of several samples where there are too many."""
        rows = self.rows[self.rows["what"] == kind]
        rows = rows[np.argsort(rows["start"], kind="stable")]
        cycles, values = rows["start"], rows["amount"]
        if not len(rows):
            return [[], []]
        last = np.append(cycles[1:] != cycles[:-1], True)  # of those at one cycle the last holds
        cycles, values = cycles[last], values[last]
        if len(cycles) > MOST_SAMPLES:
            step = -(-len(cycles) // MOST_SAMPLES)
            moved = np.concatenate([[0.0], np.cumsum(np.diff(cycles) * values[:-1])])
            kept = np.arange(0, len(cycles), step)
            values = np.append(np.diff(moved[kept]) / np.maximum(np.diff(cycles[kept]), 1e-9), values[-1])
            cycles = cycles[kept]
        return [np.round(cycles, 1).tolist(), np.round(values, 2).tolist()]

    def bytes_by_tile(self, num_tiles: int) -> list[dict[str, float]] | None:
        """Bytes of each tile's engines from and to DDR and to other tiles; None where nobody counted them."""
        rows = self.rows[self.rows["what"] == NoteKind.BYTES]
        if not len(rows):
            return None
        sums = np.zeros((num_tiles, len(Engine)))
        np.add.at(sums, (rows["tile"], rows["engine"]), rows["amount"])
        return [{Engine(e).name: float(row[e]) for e in np.flatnonzero(row).tolist()} for row in sums]

    def bytes_by_link(self, columns: int) -> list[list[int]]:
        """[from tile, to tile, bytes] of each link of the mesh that something goes over."""
        steps = (1, -1, columns, -columns)
        sums: dict[tuple[int, int], float] = {}
        for row in self.rows[self.rows["what"] == NoteKind.LINK]:
            link = int(row["tile"]), int(row["tile"]) + steps[int(row["cause"])]
            sums[link] = sums.get(link, 0.0) + float(row["amount"])
        return [[*link, round(moved)] for link, moved in sorted(sums.items())]

    def spans(self, group_of: np.ndarray, num: int) -> list[tuple[float, float]]:
        """When each group's first instruction begins and its last one ends, by what `group_of` its records says; -1 is none."""
        rows = self.rows[
            np.isin(self.rows["what"], (NoteKind.INSTRUCTION, NoteKind.WORK, NoteKind.WAIT, NoteKind.BARRIER, NoteKind.TURNS))
        ]
        groups = group_of[np.clip(rows["record"], 0, len(group_of) - 1)]
        starts, ends = np.full(num + 1, np.inf), np.full(num + 1, -np.inf)
        np.minimum.at(starts, groups, rows["start"])
        np.maximum.at(ends, groups, rows["end"])
        return [(float(a), float(b)) if b >= a else (-1.0, -1.0) for a, b in zip(starts[:num], ends[:num], strict=True)]


def _columns(rows: np.ndarray) -> dict[str, list[float]]:
    tenths = np.rint(rows["start"] * 10).astype(np.int64)
    return {
        "start": np.diff(tenths, prepend=0).tolist(),
        "cycles": (np.rint(rows["end"] * 10).astype(np.int64) - tenths).tolist(),
        "queued": np.rint((rows["start"] - rows["issue"]).clip(min=0) * (rows["what"] == NoteKind.INSTRUCTION) * 10)
        .astype(int)
        .tolist(),
        **{name: rows[name].tolist() for name in ("record", "what", "engine", "cause")},
        "amount": np.rint(rows["amount"]).astype(np.int64).tolist(),
    }


def _from_timeline(timeline: Timeline) -> np.ndarray:
    """The same from a run that was followed in Python."""
    kinds = {"barrier": NoteKind.BARRIER, "wait": NoteKind.WAIT, "queue": NoteKind.FULL}
    rows: list[tuple[float, ...]] = []
    for s in timeline.slices:
        what = NoteKind.WORK if s.engine == Engine.KC else NoteKind.INSTRUCTION
        rows += [(s.issue, s.ready, s.start, s.end, s.bytes, 0, s.record, what, tile, s.engine, s.cause) for tile in s.tiles]
    for p in timeline.pauses:
        what, engine = NoteKind.TURNS if p.turns else kinds[p.what.split()[0].rstrip(":")], p.what.rpartition(" ")[2]
        number = Engine[engine] if engine in Engine.__members__ else Engine.KC
        rows += [(p.start, p.start, p.start, p.end, p.turns, 0, p.record, what, tile, number, -1) for tile in p.tiles]
    rows += [(0.0, 0.0, cycle, 0.0, rate, 0, 0, NoteKind.DDR, 0, 0, 0) for cycle, rate in timeline.ddr]
    return np.array(rows, NOTE)
