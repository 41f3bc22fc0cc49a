"""What Model Explorer is given; in an environment with the extra `explorer`."""

from pathlib import Path

import pytest

pytest.importorskip("model_explorer", reason="needs the extra explorer: make test-explorer")

from hlo2tx8.errors import ParseError
from hlo2tx8.model_explorer.main import CYCLES, CyclesProvider, ProgramAdapter
from hlo2tx8.runtime.compile import compile_source

SAMPLES = Path(__file__).parents[2] / "hlo_samples"
GELU = SAMPLES / "elementwise" / "gelu_bf16_small.hlo"
TEXT = """func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64xf32>) {
  %d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %t = stablehlo.tanh %d : tensor<64x64xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%w init: %z) applies stablehlo.add across dimensions = [0]
    : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
  return %t, %s : tensor<64x64xf32>, tensor<64xf32>
}"""


def test_cycles_of_nodes_and_layers_add_up_to_the_program(tmp_path: Path):
    file = tmp_path / "model.mlir"
    file.write_text(TEXT)
    (graph,) = ProgramAdapter().convert(str(file), {})["graphs"]
    layers = graph.groupNodeAttributes
    whole, launch = (float(layers[""][name].replace(",", "")) for name in (CYCLES, "cycles of the launch"))
    spaces = {node.namespace for node in graph.nodes} - {"", "parameters"}
    groups = {name: float(layers[name][CYCLES].replace(",", "")) for name in layers if name and "/" not in name}
    assert len(spaces) >= 2 and spaces <= set(groups)
    assert whole == pytest.approx(compile_source(TEXT).report.cycles, abs=0.1)
    assert sum(groups.values()) + launch == pytest.approx(whole, abs=1)
    result = CyclesProvider().run("", str(file), graph.id, {}, graph).result
    of_nodes = sum(float(data.value) for data in result.results.values())
    apart = sum(float(layers[name]["cycles of no instruction"].replace(",", "")) for name in groups)
    assert of_nodes + apart == pytest.approx(sum(groups.values()), abs=1)
    names = [node.label.partition(" ")[0] for node in graph.nodes]
    sources = {int(edge.sourceNodeId) for node in graph.nodes for edge in node.incomingEdges}
    assert {"dot_general", "tanh", "reduce"} <= set(names) and all(number < len(names) for number in sources)


def test_a_saved_program_is_shown_as_its_source_is(tmp_path: Path):
    saved = tmp_path / "gelu.tx8x"
    compile_source(GELU).save(saved)
    graphs = [ProgramAdapter().convert(str(file), {})["graphs"][0] for file in (GELU, saved)]
    assert [len(graph.nodes) for graph in graphs] == [len(graphs[0].nodes)] * 2
    assert graphs[0].groupNodeAttributes == graphs[1].groupNodeAttributes


def test_what_is_no_module_is_refused(tmp_path: Path):
    file = tmp_path / "model.hlo"
    file.write_text("HloModule")
    with pytest.raises(ParseError):
        ProgramAdapter().convert(str(file), {})
    assert CyclesProvider().run("", str(file), "", {}, None).error
