"""Programs cut at exchanges, and what exchanges do."""

import numpy as np
import pytest
from xdsl.ir import Operation

from hlo2tx8.errors import HostError
from hlo2tx8.frontend import load
from hlo2tx8.spmd.collectives import collective_of
from hlo2tx8.spmd.segments import HostLoop, HostOp, Segment, SegmentedRegion, segment_program

TYPES = "(tensor<2xf32>) -> tensor<2xf32>"
SUM = f""""stablehlo.all_reduce"(%{{value}}) <{{{{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}}}}> ({{{{
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %z = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %z : tensor<f32> }}}}) : {TYPES}"""


def split_main(body: str) -> SegmentedRegion | None:
    return segment_program(load(f"module {{ func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {{\n{body}\n}} }}"))


def operation(text: str) -> Operation:
    """The all_reduce of a text."""
    module = load(
        f"module {{ func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {{\n%1 = {text}\nreturn %1 : tensor<2xf32>\n}} }}"
    )
    return next(op for op in module.walk() if op.name == "stablehlo.all_reduce")


def test_a_program_without_exchanges_is_whole():
    assert split_main("%0 = stablehlo.add %a, %a : tensor<2xf32>\n return %0 : tensor<2xf32>") is None


def test_operations_wait_for_their_first_reader_if_less_is_handed_on():
    found = split_main(f"""
      %0 = stablehlo.add %a, %a : tensor<2xf32>
      %1 = {SUM.format(value="0")}
      %2 = stablehlo.sine %a : tensor<2xf32>
      %3 = stablehlo.multiply %1, %2 : tensor<2xf32>
      return %3 : tensor<2xf32>""")
    assert found is not None
    first, exchange, last = found.steps
    assert isinstance(first, Segment) and isinstance(exchange, HostOp) and isinstance(last, Segment)
    names = [[op.name for op in next(iter(s.module.body.block.ops)).regions[0].block.ops] for s in (first, last)]
    assert names == [["stablehlo.add", "func.return"], ["stablehlo.sine", "stablehlo.multiply", "func.return"]]
    assert first.inputs == (0,) and exchange.inputs == first.outputs[:1] and found.results == last.outputs
    assert last.inputs == (0, exchange.outputs[0])


def test_operations_run_early_where_that_hands_on_no_more():
    found = split_main(f"""
          %0 = stablehlo.add %a, %a : tensor<2xf32>
          %1 = {SUM.format(value="0")}
          %2 = stablehlo.sine %0 : tensor<2xf32>
          %3 = stablehlo.multiply %1, %2 : tensor<2xf32>
          return %3 : tensor<2xf32>""")
    assert found is not None
    first, last = found.steps[0], found.steps[-1]
    assert isinstance(first, Segment) and isinstance(last, Segment)
    names = [[op.name for op in next(iter(s.module.body.block.ops)).regions[0].block.ops] for s in (first, last)]
    assert names == [["stablehlo.add", "stablehlo.sine", "func.return"], ["stablehlo.multiply", "func.return"]]


def test_constants_are_wherever_they_are_read():
    found = split_main(f"""
      %c = stablehlo.constant dense<2.0> : tensor<2xf32>
      %1 = {SUM.format(value="c")}
      %2 = stablehlo.multiply %1, %c : tensor<2xf32>
      return %2 : tensor<2xf32>""")
    assert found is not None
    segments = [step for step in found.steps if isinstance(step, Segment)]
    assert segments[0].inputs == ()
    assert len(segments[1].inputs) == 1


LOOP = f"""
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c3 = stablehlo.constant dense<3> : tensor<i32>
  %b = stablehlo.sine %a : tensor<2xf32>
  %0:2 = stablehlo.while(%i = %c0, %s = %a) : tensor<i32>, tensor<2xf32>
    cond {{{{ %p = stablehlo.compare LT, %i, {{bound}} : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %p : tensor<i1> }}}}
    do {{{{ %1 = stablehlo.add %s, %b : tensor<2xf32>
          %2 = {SUM.replace("{{", "{{{{").replace("}}", "}}}}").format(value="1")}
          %3 = stablehlo.add %i, %c1 : tensor<i32>
          stablehlo.return %3, %2 : tensor<i32>, tensor<2xf32> }}}}
  return %0#1 : tensor<2xf32>"""


def test_a_loop_is_a_step_that_reads_what_its_body_does():
    found = split_main(LOOP.format(bound="%c3"))
    assert found is not None
    before, loop = found.steps
    assert isinstance(before, Segment) and isinstance(loop, HostLoop)
    assert loop.trip_count == 3 and len(loop.inputs) == 3 and loop.inputs[2] in before.outputs
    kinds = [type(step) for step in loop.body.steps]
    assert kinds == [Segment, HostOp]
    assert found.results == loop.outputs[1:]


def test_a_loop_without_a_number_of_turns_keeps_its_condition():
    found = split_main(LOOP.format(bound="%i"))
    assert found is not None
    loop = found.steps[-1]
    assert isinstance(loop, HostLoop) and loop.trip_count is None
    assert [type(step) for step in loop.condition.steps] == [Segment]


def test_chips_that_work_together_must_agree():
    work = collective_of(operation(SUM.format(value="a")), 2, 1)
    with pytest.raises(HostError, match="disagree"):
        work({0: [np.zeros(2, np.float32)]})


CASES = (
    ("replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>", 4, 1, [1, 1, 5, 5]),
    ("replica_groups = dense<[[0, 2], [3, 1]]> : tensor<2x2xi64>", 4, 1, [2, 4, 2, 4]),
    ("replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>", 2, 2, [2, 4, 2, 4]),
    (
        "replica_groups = dense<[[0], [1]]> : tensor<2x1xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>",
        *(2, 2, [1, 1, 5, 5]),
    ),
    (
        "replica_groups = dense<[[0, 3], [1, 2]]> : tensor<2x2xi64>, use_global_device_ids,"
        " channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>",
        *(2, 2, [3, 3, 3, 3]),
    ),
    ("replica_groups = dense<> : tensor<0x0xi64>", 4, 1, [6, 6, 6, 6]),
)


@pytest.mark.parametrize(("attributes", "replicas", "partitions", "expected"), CASES)
def test_groups_of_a_sum(attributes: str, replicas: int, partitions: int, expected: list[int]):
    text = SUM.format(value="a").replace("replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>", attributes)
    op = operation(text)
    rows = collective_of(op, replicas, partitions)({i: [np.full(2, i, np.float32)] for i in range(4)})
    np.testing.assert_array_equal([rows[i][0][0] for i in range(4)], expected)
