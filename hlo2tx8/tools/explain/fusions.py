"""Why instructions are in one fusion or group, and why two of them are not, as sentences with modelled cycles."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from hlo2tx8.notes import Decision, Name, What
from hlo2tx8.tools.explain.book import Asked, Book, shown
from hlo2tx8.tools.table import count

OF_MEMBERS = (What.JOINS, What.OUTPUT, What.SHARED, What.EPILOGUE, What.BEHIND_PRODUCT)
OF_ROOTS = (What.MERGED, What.SAME_ROWS, What.APART)
OF_GROUPS = (What.GROUP, What.NO_GROUP, What.DISSOLVED, What.NO_LINK)
MOST_PLANS = 3


def why(book: Book, subject: Asked) -> Iterator[str]:
    """Lines that say in which fusions a subject is and by which rules, and what became of those as kernels."""
    fusions = subject.fusions or tuple(dict.fromkeys(f for n in subject.instructions for f in book.fusions_of(n)))
    if not fusions:
        yield f"{subject.name} is in no fusion: it is a constant, an update in place or control flow, or nobody reads it."
    for fusion in fusions:
        members = {name.number: name for name in reversed(book.fusions[fusion].about)}
        whole = f"{len(members)} instruction{'s' if len(members) > 1 else ''}"
        yield f"{fusion} has {whole}{_kernel_of(book, fusion)}."
        asked = members if subject.fusions else {n: own for n, own in subject.instructions.items() if n in members}
        for number, own in asked.items():
            yield from (f"  {line}" for line in _why_member(book, fusion, number, own))
        yield from (f"  {line}" for line in _why_group(book, fusion))
        yield from (f"  {line}" for line in _why_plan(book, book.kernels.get(fusion, "")))


def why_not(book: Book, first: Asked, second: Asked) -> Iterator[str]:
    """Lines that say which rule keeps two subjects out of one fusion, and out of one group, or that they are together."""
    of_first, of_second = _all_fusions(book, first), _all_fusions(book, second)
    shared = [fusion for fusion in of_first if fusion in of_second]
    if shared or not of_first or not of_second:
        both = f"{first.name} and {second.name}"
        yield f"{both} are fused, in {', '.join(shared)}." if shared else f"{both}: one of them is in no fusion."
        return
    path = next((p for a in of_first for b in of_second if (p := _path(book, a, b) or _path(book, b, a)[::-1])), list[str]())
    if not path:
        yield f"Neither of {first.name} and {second.name} is made of the other: {of_first[0]} and {of_second[0]} are independent."
        yield from _siblings(book, of_first, of_second)
        return
    if path[0] not in book.fusions[path[1]].reads:
        path = path[::-1]
    if len(path) > 2:
        yield f"Between {path[0]} and {path[-1]} lie {', '.join(path[1:-1])}: to be one, all of them would have to be."
    for producer, consumer in pairwise(path):
        yield f"{consumer} reads what {producer} makes."
        kernel = book.kernels.get(producer)
        if kernel is not None and kernel == book.kernels.get(consumer) and len(_fusions_in(book, producer)) > 1:
            yield f"  They are one kernel, {kernel}, as a group: what goes between them need not leave the scratchpad."
        yield from (f"  {line}" for line in _edges(book, producer, consumer))
        yield from (f"  {line}" for line in _why_group(book, producer))


def _all_fusions(book: Book, subject: Asked) -> list[str]:
    return list(subject.fusions or dict.fromkeys(f for n in subject.instructions for f in book.fusions_of(n)))


def _fusions_in(book: Book, fusion: str) -> Sequence[Name]:
    """Those of the kernel that computes a fusion."""
    return next((d.about for d in book.of(What.KERNEL) if any(str(name) == fusion for name in d.about)), ())


def _kernel_of(book: Book, fusion: str) -> str:
    kernel = book.kernels.get(fusion)
    if kernel is None:
        is_view = any(str(d.about[0]) == fusion for d in book.of(What.VIEW))
        return ", and is a view of what it reads: no kernel" if is_view else ", and no kernel"
    others = [str(name) for name in _fusions_in(book, fusion) if str(name) != fusion]
    return f" and is part of kernel {kernel}, with {', '.join(others)}" if others else f" and is kernel {kernel}"


def _why_member(book: Book, fusion: str, number: int, own: Name) -> Iterator[str]:
    """What was decided about an instruction as part of a fusion."""
    is_root = False
    inside = {name.number for name in book.fusions[fusion].about}
    for d in book.of(What.STARTS, What.NO_EPILOGUE, *OF_MEMBERS):
        if d.about[0].number != number or (d.other.number >= 0 and d.other.number not in inside):
            continue
        is_root |= d.what is What.STARTS
        yield f"{shown(own)} {_sentence(d)}."
    for d in book.of(*OF_ROOTS) if is_root else ():
        if number in (d.about[0].number, d.other.number):
            other = d.other if d.about[0].number == number else d.about[0]
            yield f"{shown(own)} and {shown(other)} {_sentence(d)}."
    if not is_root and not any(d.about[0].number == number for d in book.of(What.NO_EPILOGUE, *OF_MEMBERS)):
        yield f"{shown(own)} costs nothing, or the source has it in this fusion: each reader has its own."


def _sentence(d: Decision) -> str:
    gain = f", which saves {count(d.saved)} cycles" if d.saved else ""
    match d.what:
        case What.STARTS:
            return f"begins a fusion of its own: {d.why}"
        case What.JOINS:
            return f"joins {shown(d.other)}{f' {d.why}' if d.why else ', its only reader'}{gain}"
        case What.OUTPUT:
            return f"is computed where {shown(d.other)} is, and written for its other readers{gain}"
        case What.SHARED:
            return f"is computed once for all its readers, where {shown(d.other)} is{gain}"
        case What.EPILOGUE:
            return f"has {shown(d.other)} as epilogue: its result is changed before it leaves the scratchpad{gain}"
        case What.NO_EPILOGUE:
            return f"has no epilogue: {d.why}"
        case What.BEHIND_PRODUCT:
            return "is written behind the product that it is made of, which then is not"
        case What.MERGED:
            return f"read the same at the same index, and are one fusion{gain}"
        case What.SAME_ROWS:
            return f"are products of the same rows, which are read once{gain}"
        case What.APART:
            lost = f"; one fusion would save {count(d.saved)} cycles" if d.saved else ""
            return f"read the same, but stay apart: {d.why}{lost}"
        case _:
            return d.why


def _why_group(book: Book, fusion: str) -> Iterator[str]:
    """What was decided about groups with a fusion."""
    for d in book.of(*OF_GROUPS):
        names = [str(name) for name in d.about]
        if fusion not in names:
            continue
        others = f" with {', '.join(name for name in names if name != fusion)}" if len(names) > 1 else ""
        costs = f"; {count(d.cycles)} cycles as a group, {count(d.apart)} apart" if d.apart else ""
        match d.what:
            case What.GROUP:
                yield f"It is in a group{others}: {d.why}."
            case What.NO_GROUP:
                yield f"It is in no group{others}: {d.why}{'' if d.cycles else costs}."
            case What.DISSOLVED:
                yield f"Its group {d.other}{others} became kernels of their own: {d.why}."
            case _:
                yield f"No group goes on behind it {d.why}."


def _why_plan(book: Book, kernel: str) -> Iterator[str]:
    """Which plan a kernel has, and the best of those that were rejected."""
    taken = [d for d in book.of(What.PLAN) if str(d.about[0]) == kernel]
    rejected = sorted((d for d in book.of(What.NO_PLAN) if str(d.about[0]) == kernel), key=lambda d: d.cycles)
    for d in taken[-1:]:
        yield f"Its plan: {d.other}{d.why}."
    for d in rejected[:MOST_PLANS]:
        yield f"Not taken: {d.other}: {d.why}."
    if len(rejected) > MOST_PLANS:
        yield f"{len(rejected) - MOST_PLANS} more plans were rejected."


def _edges(book: Book, producer: str, consumer: str) -> Iterator[str]:
    """Which rules keep the instructions that a fusion makes from their readers in another one."""
    inside = {name.number for name in book.fusions[consumer].about}
    made: Mapping[int, Name] = {name.number: name for name in reversed(book.fusions[producer].about)}
    found: dict[str, None] = {}
    for d in book.of(What.STARTS):
        for edge in d.edges if d.about[0].number in made else ():
            if edge.reader.number in inside:
                saved = f" One fusion would save {count(edge.saved)} cycles of reading and writing." if edge.saved else ""
                own = shown(made[d.about[0].number])
                found[f"{own} is not computed where {shown(edge.reader)} is: {edge.why}.{saved}"] = None
    for d in book.of(What.NO_OUTPUT, What.NO_EPILOGUE, What.OUTPUT):
        if d.about[0].number in made and (d.other.number in inside or d.what is not What.NO_OUTPUT):
            text = "is written, as an output of this fusion" if d.what is What.OUTPUT else f"has it apart because: {d.why}"
            found[f"{shown(made[d.about[0].number])} {text}."] = None
    yield from found or ("The source has them as fusions of their own, or control flow lies between them.",)


def _siblings(book: Book, of_first: Iterable[str], of_second: Iterable[str]) -> Iterator[str]:
    """Of fusions that are independent: what they read both, and what was decided about that."""
    first, second = ([book.fusions[f] for f in fusions] for fusions in (of_first, of_second))
    ends = [{n.number for d in own for n in d.about} for own in (first, second)]
    for d in book.of(What.APART):
        pair = d.about[0].number, d.other.number
        if (pair[0] in ends[0] and pair[1] in ends[1]) or (pair[0] in ends[1] and pair[1] in ends[0]):
            yield f"  {shown(d.about[0])} and {shown(d.other)} {_sentence(d)}."
            return
    both = [name for d in first for name in d.reads if any(name in other.reads for other in second)]
    if both:
        yield f"  Both read {', '.join(dict.fromkeys(both))}, but not at the same index of results of the same shape."
    else:
        yield "  They read no fusion in common: one has to read the other, or both the same at the same index, to become one."


def _path(book: Book, start: str, end: str) -> list[str]:
    """The shortest way from a fusion to one that is made of it; [] if there is none."""
    before: dict[str, str] = {end: ""}
    queue = [end]
    for name in queue:
        if name == start:
            path = [name]
            while before[path[-1]]:
                path.append(before[path[-1]])
            return path
        for made in book.fusions[name].reads if name in book.fusions else ():
            if made not in before:
                before[made] = name
                queue.append(made)
    return []
