"""Chains of elementwise ops as one op each: what only they read goes through dest and intermediate buffers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from hlo2tx8.netlist.emit.build import TRANSPOSE, Step
from hlo2tx8.netlist.formats import FORMATS
from hlo2tx8.netlist.model import FusedOp, ScheduledOp
from hlo2tx8.netlist.ops import KINDS

MOST_INPUTS = 8
MOST_BUFFERS = 8
FAMILIES = ("binary", "sfpu", "copy")


@dataclass(frozen=True)
class Chain:
    """Steps of a fused op in order, and how many intermediate buffers they take; blocks are not known yet."""

    inputs: int
    buffers: int
    steps: tuple[ScheduledOp, ...]

    def blocked(self, name: str, mblock: tuple[int, int], ublock: tuple[int, int]) -> FusedOp:
        """The fused op of that name, in blocks of the op that uses it."""
        steps = tuple(replace(step, mblock=mblock, ublock=ublock) for step in self.steps)
        return FusedOp(name, self.inputs, self.buffers, "", (steps,))


def fused(steps: Sequence[Step], results: Collection[str], arch: str) -> tuple[list[Step], dict[str, Chain]]:
    """The same ops with chains as one each; `results` are ops that queues read."""
    readers: dict[str, list[Step]] = {}
    for step in steps:
        for source, _ in step.inputs:
            readers.setdefault(source, []).append(step)
    named = {step.name: step for step in steps}
    kept: list[Step] = []
    chains: dict[str, Chain] = {}
    gone: set[str] = set()
    for root in reversed(steps):
        if root.name in gone:
            continue
        group = _group(root, named, readers, {*results, *gone}) if _is_elementwise(root) else [root]
        chain, sources = None, list[tuple[str, tuple[object, ...]]]()
        while len(group) > 1 and chain is None:
            chain, sources = _chain(group, arch)
            group = group if chain else group[1:]
        if chain is None:
            kept.insert(0, root)
            continue
        gone |= {step.name for step in group}
        name = f"fused_{root.name}"
        chains[name] = chain
        made = replace(root, type="fused_op", inputs=tuple(sources), attributes={"fused_op_id": name})  # pyright: ignore[reportArgumentType]
        kept.insert(0, made)
    return kept, chains


def _is_elementwise(step: Step) -> bool:
    is_turned = any(TRANSPOSE in tms for _, tms in step.inputs)
    return KINDS[step.type].family in FAMILIES and not is_turned and not FORMATS[step.df].is_integer


def _group(root: Step, named: Mapping[str, Step], readers: Mapping[str, Sequence[Step]], others: Collection[str]) -> list[Step]:
    """An op with those before it that nobody else reads, in order."""
    group = {root.name: root}
    ready = [root]
    while ready:
        for source, tms in ready.pop().inputs:
            step = named.get(source)
            if step is None or tms or source in group or source in others or not _is_elementwise(step):
                continue
            plain = all(tms == () for reader in readers[source] for name, tms in reader.inputs if name == source)
            if plain and all(reader.name in group for reader in readers[source]) and (step.shape, step.df) == (root.shape, root.df):
                group[source] = step
                ready.append(step)
                ready += [one for one in group.values() if one is not step]  # what waited for this reader
    return [step for step in named.values() if step.name in group]


def _chain(group: Sequence[Step], arch: str) -> tuple[Chain | None, list[tuple[str, tuple[object, ...]]]]:
    """The steps of a group and what they read from outside; None if that is too much."""
    own = {step.name for step in group}
    sources = list(dict.fromkeys((source, tms) for step in group for source, tms in step.inputs if source not in own))
    last = {source: number for number, step in enumerate(group) for source, _ in step.inputs if source in own}
    place: dict[str, str] = {}
    free, buffers, made = list[int](), 0, list[ScheduledOp]()
    for number, step in enumerate(group):
        inputs = [place[source] if source in own else f"input{sources.index((source, tms))}" for source, tms in step.inputs]
        pops = [place[source] for source, _ in step.inputs if last.get(source) == number and place[source] != "dest"]
        if number + 1 == len(group):
            output = "output"
        elif _takes_dest(step, group[number + 1], last[step.name] == number + 1, arch):
            output = "dest"
        else:
            if not free:
                free.append(buffers)
                buffers += 1
            output = f"intermed{free.pop()}"
        place[step.name] = output
        free += [int(name.removeprefix("intermed")) for name in dict.fromkeys(pops)]
        made.append(_scheduled(step, inputs, output, tuple(dict.fromkeys(pops))))
    fits = len(sources) <= MOST_INPUTS and buffers <= MOST_BUFFERS
    return (Chain(len(sources), buffers, tuple(made)) if fits else None), list(sources)


def _takes_dest(step: Step, reader: Step, is_last: bool, arch: str) -> bool:
    """May a value stay in dest for the next step?"""
    places = [number for number, (source, _) in enumerate(reader.inputs) if source == step.name]
    allowed = [0] if arch == "grayskull" else [0, 1]
    return is_last and "maximum" not in (step.type, reader.type) and len(places) == 1 and places[0] in allowed


def _scheduled(step: Step, inputs: Sequence[str], output: str, pops: tuple[str, ...]) -> ScheduledOp:
    return ScheduledOp(step.name, step.type, tuple(inputs), output, (1, 1), (1, 1), pops, attributes=step.attributes)
