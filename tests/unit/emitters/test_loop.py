"""The loop emitter and the passes to FLAT equal the evaluator on every level, for all kinds of accesses."""

import sys
from pathlib import Path

import pytest
from xdsl.dialects.builtin import bf16, f32, i32
from xdsl.ir import SSAValue

sys.path.insert(0, str(Path(__file__).parent))
from hlo_builder import TARGET, Computation, check_all_levels, fusion_of, num_functions, t

from hlo2tx8.emitters import emit_fusion


def gelu(*shape: int) -> tuple[Computation, SSAValue]:
    c = Computation(t(*shape, element=bf16))
    (p,) = c.p
    scalars = [c.constant(value, t(element=bf16)) for value in (0.5, 1, 0.79785, 0.044708)]
    half, one, root, cubic = (c.op("broadcast_in_dim", [s], p.type, broadcast_dimensions=[]) for s in scalars)
    cube = c.same("multiply", c.same("multiply", c.same("multiply", p, p), p), cubic)
    inner = c.same("multiply", c.same("add", p, cube), root)
    outer = c.same("multiply", c.same("add", c.same("tanh", inner), one), half)
    return c, c.same("multiply", p, outer)


def diamond(c: Computation, x: SSAValue) -> SSAValue:
    log = c.same("tanh", x)
    return c.same("add", c.op("transpose", [log], log.type, permutation=[1, 0]), log)


def test_gelu_is_one_function_and_one_linear_map() -> None:
    c, root = gelu(6, 64, 512)
    module = c.module(root)
    assert num_functions(emit_fusion(fusion_of(module), "gelu", TARGET)) == 1
    flat = str(check_all_levels(module))
    assert "(tile)[step, lane] -> (tile * 12288 + step * 2048 + lane)" in flat
    assert "floordiv" not in flat.replace("xla.logical_type", "")


def test_gelu_offset_of_the_large_shape() -> None:
    c, root = gelu(6, 512, 4096)
    kernel = emit_fusion(fusion_of(c.module(root)), "gelu", TARGET)
    from hlo_builder import PASSES
    from xdsl.context import Context

    for step in PASSES:
        step.apply(Context(), kernel)
    assert "-> (tile * 786432 + step * 8192 + lane)" in str(kernel)


def test_log_transpose_add_is_three_functions() -> None:
    c = Computation(t(8, 8))
    module = c.module(diamond(c, c.p[0]))
    assert num_functions(emit_fusion(fusion_of(module), "f", TARGET)) == 3
    check_all_levels(module)


def test_slice_pad_diamond_is_three_functions() -> None:
    c = Computation(t(10), t(10))
    x = c.same("add", *c.p)
    a = c.op("slice", [x], t(8), start_indices=[1], limit_indices=[9], strides=[1])
    zero = c.constant(0, t())
    b = c.op("pad", [x, zero], t(8), edge_padding_low=[-2], edge_padding_high=[0], interior_padding=[0])
    module = c.module(c.same("multiply", a, b))
    assert num_functions(emit_fusion(fusion_of(module), "f", TARGET)) == 3
    check_all_levels(module)


def test_chain_of_diamonds_is_linear() -> None:
    def lines(n: int) -> int:
        c = Computation(t(8, 8))
        x: SSAValue = c.p[0]
        for _ in range(n):
            x = diamond(c, x)
        return len(str(check_all_levels(c.module(x))).splitlines())

    a, b, d = lines(4), lines(8), lines(16)
    assert d - b == 2 * (b - a)


SHAPES = [(), (1,), (5,), (100003,), (7, 5, 3), (2, 3, 4, 5, 6, 2), (1, 1, 3, 1), (0,), (3, 0, 2), (33, 100), (1000, 33)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("step_elements", [0, 100])
def test_elementwise_shapes(shape: tuple[int, ...], step_elements: int) -> None:
    c = Computation(t(*shape), t(*shape))
    check_all_levels(c.module(c.same("add", c.same("multiply", c.p[0], c.p[1]), c.p[0])), step_elements)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_broadcast(dim: int) -> None:
    c = Computation(t(7, 30, 11), t((7, 30, 11)[dim]))
    b = c.op("broadcast_in_dim", [c.p[1]], c.p[0].type, broadcast_dimensions=[dim])
    check_all_levels(c.module(c.same("add", b, c.p[0])), 128)


@pytest.mark.parametrize(
    ("low", "high", "interior"),
    [
        ((1, -1), (2, 4), (1, 0)),
        ((0, 0), (0, 2), (0, 2)),
        ((-2, -3), (-1, -1), (0, 0)),
        ((0, 0), (0, 0), (0, 0)),
        ((6, 0), (-10, 0), (0, 1)),
    ],
)
def test_pad(low: tuple[int, int], high: tuple[int, int], interior: tuple[int, int]) -> None:
    c = Computation(t(5, 8), t())
    shape = [a + b + n + (n - 1) * k for a, b, n, k in zip(low, high, (5, 8), interior, strict=True)]
    attributes = {"edge_padding_low": [*low], "edge_padding_high": [*high], "interior_padding": [*interior]}
    padded = c.op("pad", [c.same("multiply", c.p[0], c.p[0]), c.p[1]], t(*shape), **attributes)
    check_all_levels(c.module(c.same("negate", padded)))


@pytest.mark.parametrize("dim", [0, 1])
def test_concatenate(dim: int) -> None:
    sizes = (5, 3, 0, 4)
    types = [t(n, 7) if dim == 0 else t(7, n) for n in sizes]
    c = Computation(*types)
    parts = [c.same("negate", c.p[0]), *c.p[1:]]
    whole = c.op("concatenate", parts, t(12, 7) if dim == 0 else t(7, 12), dimension=dim)
    check_all_levels(c.module(c.same("negate", whole)))


def test_chains_under_conditions_stay_linear() -> None:
    c = Computation(t(8))
    x: SSAValue = c.p[0]
    shift = {"edge_padding_low": [1], "edge_padding_high": [-1], "interior_padding": [0]}
    for k in range(10):
        a, b = (c.op("pad", [x, c.constant(v, t())], t(8), **shift) for v in (k, 2 * k))
        x = c.same("add", a, b)
    for _ in range(4):
        (size,) = x.type.get_shape()
        x = c.op("concatenate", [x, x], t(2 * size), dimension=0)
    assert len(str(check_all_levels(c.module(x))).splitlines()) < 1000


RESHAPES = [
    ((6, 20), (1, 0), (120,)),
    ((4, 6, 5), (1, 0, 2), (24, 5)),
    ((6, 4), (1, 0), (3, 8)),
    ((2, 3, 5, 7), (2, 0, 3, 1), (10, 21)),
]


@pytest.mark.parametrize(("shape", "permutation", "to"), RESHAPES)
def test_reshape_of_transpose(shape: tuple[int, ...], permutation: tuple[int, ...], to: tuple[int, ...]) -> None:
    c = Computation(t(*shape))
    moved = c.op("transpose", [c.p[0]], t(*(shape[i] for i in permutation)), permutation=[*permutation])
    check_all_levels(c.module(c.op("reshape", [moved], t(*to))))


def test_reshape_of_transpose_is_affine_in_lanes() -> None:
    c = Computation(t(6, 20))
    moved = c.op("transpose", [c.p[0]], t(20, 6), permutation=[1, 0])
    flat = str(check_all_levels(c.module(c.op("reshape", [moved], t(120)))))
    assert "floordiv" not in flat


def test_reverse_slice_iota() -> None:
    c = Computation(t(60, 20))
    part = c.op("slice", [c.p[0]], t(15, 7), start_indices=[3, 2], limit_indices=[60, 16], strides=[4, 2])
    turned = c.op("reverse", [part], part.type, dimensions=[0, 1])
    rows, columns = (c.op("iota", [], part.type, iota_dimension=d) for d in (0, 1))
    check_all_levels(c.module(c.same("add", c.same("multiply", turned, rows), columns)))


@pytest.mark.parametrize("out", [None, (0, 1)])
def test_layouts(out: tuple[int, ...] | None) -> None:
    c = Computation(t(6, 20, layout=(0, 1)), t(6, 20))
    check_all_levels(c.module(c.op("add", c.p, t(6, 20, layout=out))))


def test_layout_that_undoes_a_transpose_is_contiguous() -> None:
    c = Computation(t(20, 6))
    flat = str(check_all_levels(c.module(c.op("transpose", c.p, t(6, 20, layout=(0, 1)), permutation=[1, 0]))))
    assert flat.count("xla.apply_indexing") == 1


def test_several_roots() -> None:
    c = Computation(t(20, 6))
    x = c.same("negate", c.p[0])
    turned = c.op("transpose", [x], t(6, 20), permutation=[1, 0])
    check_all_levels(c.module(x, turned, c.same("abs", x), c.p[0], x))


def test_scalars_select_clamp_compare_convert() -> None:
    from xdsl.dialects.builtin import i1

    c = Computation(t(9, 5), t(9, 5), t(), t())
    low, high = c.p[2], c.same("add", c.p[3], c.p[2])
    less = c.op("compare", [c.p[0], c.p[1]], t(9, 5, element=i1), comparison_direction="LT", compare_type="FLOAT")
    clamped = c.op("clamp", [low, c.p[0], high], t(9, 5))
    whole = c.op("convert", [c.op("select", [less, clamped, c.p[1]], t(9, 5))], t(9, 5, element=i32))
    check_all_levels(c.module(c.op("convert", [c.same("add", whole, whole)], t(9, 5, element=f32))))


def test_index_only_functions_are_inlined_everywhere() -> None:
    c = Computation(t(8, 9))
    moved = c.op("transpose", [c.p[0]], t(9, 8), permutation=[1, 0])
    turned = c.op("reverse", [moved], moved.type, dimensions=[0])
    assert "allocate_scratch" not in str(check_all_levels(c.module(c.same("add", moved, turned))))
