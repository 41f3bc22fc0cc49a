"""What `--report` says of several chips: the programs of each, collective ops on the links, what a chip sends; PCIe, apart."""

from typing import TYPE_CHECKING, Any

from hlo2tx8.tools.table import Table

if TYPE_CHECKING:
    from hlo2tx8.spmd.chips import ChipsExecutable


def describe_chips(executable: "ChipsExecutable", *, program: bool, report: bool) -> str:
    """The programs between collective ops and ops of the host, with what each takes, and the links."""
    local, parts = executable.local, list[str]()
    if program:
        listings = ((n, each.as_text()) for n, (each, _) in enumerate(local.programs))
        parts += [f"\n** Tile program {executable.local.name}, part {number} **\n{text}\n" for number, text in listings]
    if report:
        parts += [f"\n** Modelled cost on {executable.num_chips} x {local.chip.name} **\n", text_of_tables(executable)]
        parts += ["\n", *(f"  {key:30} {value:>14,}\n" for key, value in executable.memory_analysis().items())]
    return "".join(parts)


def text_of_tables(executable: "ChipsExecutable") -> str:
    """Tables of the programs, collective ops and chips, and a line about PCIe."""
    local, mesh = executable.local, executable.local.mesh
    costs = executable.cost_analysis()
    rows = [
        (f"part {n}, {each.name}", str(count), f"{each.report.cycles:,.0f}", f"{count * each.report.cycles:,.0f}")
        for n, (each, count) in enumerate(local.programs)
    ]
    rows.append(("links", "", "", f"{local.link_cycles:,.0f}"))
    rows.append(("together", "", "", f"{float(str(costs.get('cycles', 0))):,.0f}"))
    tables = [Table(("each chip runs", ">times", ">cycles", ">in all"), rows)]
    if local.links:
        header = ("over the links", "place", ">times", ">exchanges", ">hops", ">busiest link", ">cycles", ">in all")
        numbers = ("times", "exchanges", "hops", "busiest_link_bytes", "cycles", "total_cycles")
        found = link_rows(executable)
        rows = [(each["op"], each["place"], *(f"{each[key]:,.0f}" for key in numbers)) for each in found]
        tables.append(Table(header, rows))
        rows = [
            (str(each["chip"]), f"{each['x']}, {each['y']}", f"{each['bytes_sent']:,}", f"{each['link_cycles']:,.0f}")
            for each in chip_rows(executable)
        ]
        tables.append(Table((f"chip of {mesh.columns} x {mesh.rows}", "column, row", ">bytes sent", ">cycles of links"), rows))
    sizes = executable.memory_analysis()
    moved = sizes["argument_size_in_bytes"], sizes["output_size_in_bytes"]
    seconds = sum(moved) / local.chip.pcie_bytes_per_second
    pcie = f"PCIe, apart: {moved[0]:,} bytes to each chip and {moved[1]:,} from it, {1e6 * seconds:,.3f} us\n"
    return "\n".join([*(table.text(is_terminal=False) for table in tables), pcie])


def link_rows(executable: "ChipsExecutable") -> list[dict[str, Any]]:
    """Of each collective op: its name and place, how often it happens, exchanges, hops, bytes on the busiest link, cycles."""
    return [
        {
            "op": step.name,
            "place": step.place,
            "times": count,
            "exchanges": len(step.exchanges),
            "hops": sum(each.hops for each in step.exchanges),
            "busiest_link_bytes": sum(max(each.loads.values(), default=0) for each in step.exchanges),
            "cycles": step.link_cycles,
            "total_cycles": count * step.link_cycles,
        }
        for step, count in executable.local.links
    ]


def chip_rows(executable: "ChipsExecutable") -> list[dict[str, int | float]]:
    """Of each chip: its place in the mesh, bytes that leave it over its links, cycles of the ops that it sends anything in."""
    local = executable.local
    return [
        {
            "chip": chip,
            "x": chip % local.mesh.columns,
            "y": chip // local.mesh.columns,
            "bytes_sent": sum(count * step.sent_by(chip) for step, count in local.links),
            "link_cycles": sum(count * step.cycles_of(chip) for step, count in local.links),
        }
        for chip in range(executable.num_chips)
    ]
