"""What Model Explorer is given: a compiled program's instructions by group and fusion, and the modelled time of each."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model_explorer import (
    Adapter,
    AdapterMetadata,
    GetConfigEditorsResult,
    ModelExplorerGraphs,
    NodeDataProvider,
    NodeDataProviderFilter,
    NodeDataProviderMetadata,
    NodeDataProviderResult,
)
from model_explorer.graph_builder import Graph, GraphNode, IncomingEdge, KeyValue, MetadataItem
from model_explorer.node_data_builder import GradientItem, GraphNodeData, NodeDataResult

from hlo2tx8.options import Level
from hlo2tx8.reports.facts import facts_of
from hlo2tx8.reports.graph import OUTSIDE
from hlo2tx8.reports.groups import kernel_of_groups
from hlo2tx8.reports.shown import Shown
from hlo2tx8.runtime.compile import compile_source
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.tools.saved import is_saved, parsed

ADAPTER, PROVIDER = "hlo2tx8", "hlo2tx8_cycles"
CYCLES = "cycles"
"""A node's attribute that the overlay shows."""
PARAMETERS = "parameters"
"""Their layer: a network has hundreds."""


class ProgramAdapter(Adapter):
    """Compiles a module, or takes a `.tx8x` program as it is."""

    metadata = AdapterMetadata(
        id=ADAPTER,
        name="hlo2tx8 program",
        description="Groups, fusions and instructions as compiled for the TX8, with modelled cycles",
        fileExts=["hlo", "mlir", "mlirbc", "tx8x"],
    )

    def convert(self, model_path: str, settings: Mapping[str, Any]) -> ModelExplorerGraphs:
        """One graph; an Hlo2tx8Error's message is shown by Model Explorer."""
        if is_saved(model_path):
            executable = Executable.load(model_path)
            return {"graphs": [graph_of(executable, Shown.of(executable, lambda text: parsed(text, model_path)), Path(model_path))]}
        shown = Shown()

        def show(level: Level, name: str, module: Any) -> None:
            if level is Level.FUSED or (level is Level.LOOPS and not name):  # the graph and the launches; no text of IR is needed
                shown(level, name, module)

        return {"graphs": [graph_of(compile_source(model_path, show=show), shown, Path(model_path))]}


class CyclesProvider(NodeDataProvider):
    """An overlay of modelled cycles."""

    metadata = NodeDataProviderMetadata(
        id=PROVIDER,
        name="modelled cycles",
        description="Each instruction's share of its group's modelled time",
        icon="timer",
        filter=NodeDataProviderFilter(adapterIds=[ADAPTER]),
    )

    def get_config_editors(self, provider_id: str) -> GetConfigEditorsResult:
        """There is nothing to choose."""
        return GetConfigEditorsResult([])

    def run(
        self, provider_id: str, model_path: str, graph_id: str, config_values: Mapping[str, Any], graph: Graph | None
    ) -> NodeDataProviderResult:
        """The cycles that the adapter wrote to the nodes of the graph that is shown."""
        if graph is None:
            return NodeDataProviderResult(error="Model Explorer has not sent the graph that it shows")
        cycles = {node.id: float(str(a.value)) for node in graph.nodes for a in node.attrs if a.key == CYCLES}
        colours = [GradientItem(0, "#ffffff"), GradientItem(0.1, "#fde9a9"), GradientItem(1, "#e0533d")]
        results = {node: NodeDataResult(value) for node, value in cycles.items()}
        return NodeDataProviderResult(GraphNodeData(results, "modelled cycles", gradient=colours))


def graph_of(executable: Executable, shown: Shown, path: Path) -> Graph:
    """Nodes are instructions, namespaces GROUP or GROUP/FUSION; edges are in the order of operands."""
    facts = facts_of(executable, shown, path.name, path)
    values: Mapping[str, Any] = facts.values
    kernels: list[str] = [kernel["name"].replace("/", "_") for kernel in facts.texts["kernels"]]  # pyright: ignore
    cycles = cycles_of_nodes(executable, shown)
    rows = values["graph"]["nodes"]
    parts = Counter(kernel for kernel, _ in {(kernel, fusion) for _, _, kernel, fusion, _ in rows})
    nodes: list[GraphNode] = []
    fusion_cycles: dict[str, float] = defaultdict(float)
    group_cycles: dict[int, float] = defaultdict(float)
    for number, (label, types, kernel, fusion, origin) in enumerate(rows):
        space = kernels[kernel] if kernel != OUTSIDE else PARAMETERS if label.startswith("parameter ") else ""
        if parts[kernel] > 1 and fusion != OUTSIDE:
            space += f"/{values['graph']['fusions'][fusion].replace('/', '_')}"
            fusion_cycles[space] += cycles.get(number, 0.0)
        group_cycles[kernel] += cycles.get(number, 0.0)
        place = values["origins"][origin]
        said = {CYCLES: f"{cycles[number]:.1f}" if number in cycles else "", "hlo": place["hlo"], "source": place["source"]}
        said["group"] = "" if kernel == OUTSIDE else kernels[kernel]  # a layer of one instruction is drawn as that
        attributes = [KeyValue(key, text) for key, text in said.items() if text]
        shapes = [MetadataItem("0", [KeyValue("tensor_shape", types)])]
        nodes.append(GraphNode(str(number), label, space, attrs=attributes, outputsMetadata=shapes))
    for source, target, _ in values["graph"]["edges"]:
        edges = nodes[target].incomingEdges
        edges.append(IncomingEdge(str(source), targetNodeInputId=str(len(edges))))
    spaces = {space: {CYCLES: f"{own:,.1f}"} for space, own in fusion_cycles.items()}
    return Graph(path.name, nodes, groupNodeAttributes=spaces | _attributes(executable, values, kernels, group_cycles))


def cycles_of_nodes(executable: Executable, shown: Shown) -> dict[int, float]:
    """Modelled cycles of instructions by their number: what its group spends for its origin, divided among those that have it.

    Equal groups are compiled once, and their records have the origins of the first: instructions are found there by position.
    """
    members: dict[int, list[int]] = defaultdict(list)
    for number, node in enumerate(shown.graph.nodes):
        members[node[2]].append(number)
    found: dict[int, float] = defaultdict(float)
    profile = executable.profile()
    first_of: dict[str, int] = {}
    for row, kernel in zip(profile.fusions[1:], kernel_of_groups(profile, shown), strict=True):
        if kernel == OUTSIDE:
            continue
        first = members[first_of.setdefault(row.name, kernel)]
        alike: dict[str, list[int]] = defaultdict(list)
        for known, number in zip(first, members[kernel], strict=False):
            alike[shown.graph.nodes[known][4]].append(number)
        for origin, cycles in row.origins.items():
            for number in alike.get(origin, ()):
                found[number] += cycles / len(alike[origin])
    return found


def _attributes(
    executable: Executable, values: Mapping[str, Any], kernels: list[str], of_nodes: Mapping[int, float]
) -> dict[str, dict[str, str]]:
    """What is said of the program, by the name "", and of each group, whose nodes have so many cycles."""
    report, outside = executable.report, [g for g in values["groups"] if g["kernel"] == OUTSIDE]
    found = {
        "": {
            "chip": executable.chip.name,
            CYCLES: f"{report.cycles:,.1f}",
            "bound": report.bound,
            "cycles of the launch": f"{report.launch:,.1f}",
            "cycles of copies and control": f"{sum(g['cycles'] for g in outside):,.1f}",
        }
    }
    for kernel, name in enumerate(kernels):
        runs = [g for g in values["groups"] if g["kernel"] == kernel]
        cycles = sum(g["cycles"] for g in runs)
        found[name] = {
            CYCLES: f"{cycles:,.1f}",
            "cycles of no instruction": f"{cycles - of_nodes[kernel]:,.1f}",
            "share of the program": f"{cycles / report.cycles:.1%}",
            "bound": ", ".join(dict.fromkeys(g["bound"] for g in runs if g["bound"])),
            "bytes read from DDR": f"{sum(sum(g['read'].values()) for g in runs):,}",
            "bytes written to DDR": f"{sum(sum(g['written'].values()) for g in runs):,}",
            "bytes kept in SPM": f"{sum(g['kept'] or 0 for g in runs):,}",
        }
    return found
