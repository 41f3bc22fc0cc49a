"""Random graphs: a few fixed seeds at every level, and the fuzzer's own parts."""

from dataclasses import replace

import numpy as np
import pytest

from hlo2tx8.compiler.driver import load_source
from hlo2tx8.dev.fuzz.bounds import bounds_of
from hlo2tx8.dev.fuzz.check import check
from hlo2tx8.dev.fuzz.control import Loop
from hlo2tx8.dev.fuzz.draw import Case, draw
from hlo2tx8.dev.fuzz.draw_control import draw_control
from hlo2tx8.dev.fuzz.graph import PARAMETER, Graph, Node
from hlo2tx8.dev.fuzz.shrink import resized, shrink
from hlo2tx8.hlo import TensorLike, evaluate
from hlo2tx8.runtime.levels import RUNS
from hlo2tx8.tools.compare import compare

ON_CORE = [run for run in RUNS if run.mode == "fast"]
F32 = np.dtype(np.float32)


@pytest.mark.parametrize("seed", range(6))
def test_a_random_graph_is_right_at_every_level(seed: int):
    assert check(draw(seed), RUNS) is None


@pytest.mark.parametrize("seed", range(100, 112))
def test_a_random_graph_is_right_on_the_chip(seed: int):
    assert check(draw(seed), ON_CORE) is None


@pytest.mark.parametrize("seed", [2, 4, 9, 10, 20])
def test_a_random_graph_with_loops_and_branches_is_right(seed: int):
    case = draw_control(seed)
    assert case.graph.controls
    assert check(case, ON_CORE) is None


def test_control_flow_is_only_in_the_text():
    for seed in range(100):
        case = draw_control(seed)
        graph = case.graph
        assert graph.rolled() == graph
        text = graph.to_hlo()
        loops = sum(isinstance(c, Loop) for c in graph.controls)
        assert (text.count(" while("), text.count(" conditional(")) == (loops, len(graph.controls) - loops)
        if seed < 20:
            found = evaluate(load_source(text, format="hlo"), *case.arrays)
            for root, array in zip(graph.roots, found, strict=True):
                assert compare([array], [graph.values(case.arrays)[root]], [np.zeros(array.shape)]) == []


def test_equal_seeds_draw_equal_graphs_and_texts_keep_their_meaning():
    for seed in range(40):
        case, again = draw(seed), draw(seed)
        text = case.graph.to_hlo()
        assert again.graph.to_hlo() == text
        values = case.graph.values(case.arrays)
        found = evaluate(load_source(text, format="hlo"), *case.arrays)
        for root, array in zip(case.graph.roots, found, strict=True):
            assert compare([array], [values[root]], [np.zeros(array.shape)]) == []


def graph_of(*names: str) -> Graph:
    """A chain of unary ops on f32[6]."""
    nodes = [Node(PARAMETER, TensorLike((6,), F32))]
    nodes += [Node(f"stablehlo.{name}", TensorLike((6,), F32), (i,)) for i, name in enumerate(names)]
    return Graph(tuple(nodes), (len(names),))


def test_bounds_grow_with_the_graph_and_know_what_they_do_not_know():
    x = np.array([0.5, 1.0, 4.0, -1.0, np.inf, 1e-45], np.float32)
    graph = graph_of("sqrt", "exponential", "floor")
    values = graph.values([x])
    _, root, exponential, floor = bounds_of(graph, values, is_xla=False)
    assert root[2] == np.spacing(np.float32(2.0))
    assert exponential[2] > 2 * root[2]
    assert list(floor[:3]) == [0, 0, 0]
    assert all(bound[4] == 0 for bound in (root, exponential, floor))
    flushed = bounds_of(graph_of("rsqrt"), graph_of("rsqrt").values([x]), is_xla=True)[1]
    assert np.isinf(flushed[5])
    assert np.isfinite(flushed[:3]).all()
    to_pred = Node("stablehlo.convert", TensorLike((6,), np.dtype(bool)), (0,))
    truth = Graph((graph.nodes[0], to_pred), (1,))
    assert list(bounds_of(truth, truth.values([x]), is_xla=True)[1]) == [0, 0, 0, 0, 0, np.inf]


def test_a_loop_whose_turns_differ_is_none():
    graph = graph_of("tanh", "abs", "tanh", "abs")
    rolled = replace(graph, controls=(Loop(1, 5, 2, ((0, 2),)),))
    assert rolled.rolled() == rolled
    assert rolled.to_hlo().count("tanh(") == 1
    uneven = replace(graph_of("tanh", "abs", "tanh", "negate"), controls=rolled.controls)
    seen_from_outside = replace(rolled, roots=(2, 4))
    assert uneven.rolled().controls == seen_from_outside.rolled().controls == ()


def test_shrinking_leaves_what_fails():
    graph = graph_of("negate", "sqrt", "tanh", "abs")
    case = Case(Graph(graph.nodes, (2, 4), ((1, 4),)), (np.arange(6, dtype=np.float32),), 64)

    def has_tanh(smaller: Case) -> bool:
        return any(node.name == "stablehlo.tanh" for node in smaller.graph.nodes)

    smallest = shrink(case, has_tanh)
    assert [node.name for node in smallest.graph.nodes] == [PARAMETER, "stablehlo.tanh"]
    assert smallest.graph.nodes[1].result.shape == (1,)
    assert (smallest.graph.fusions, smallest.step_elements) == ((), 0)
    assert resized(case, 6, 3) is not None
    assert resized(case, 5, 3) is None
