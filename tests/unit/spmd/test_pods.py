"""Programs on a pod: the same bits as in one process, and an error that says which process cannot go on."""

import json
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hlo2tx8.errors import HostError, PodError
from hlo2tx8.options import Options
from hlo2tx8.runtime.pods.peer import Begun
from hlo2tx8.runtime.pods.pod import Membership, Pod, join
from hlo2tx8.runtime.pods.wire import MOST_HEAD_BYTES, SIZES, WireError, introduce
from hlo2tx8.spmd.chips import compile_chips_module
from hlo2tx8.spmd.chips_module import module_for_chips
from hlo2tx8.spmd.pod_launch import PodProgram
from hlo2tx8.spmd.segmented_executable import SegmentedExecutable
from tests.unit.spmd.pods import Values, all_do, launched, pods

ADD = "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}\n"
EXCHANGES = f"""HloModule exchanges, replica_count=4
{ADD}ENTRY e {{
  x = f32[8,6] parameter(0)
  h = bf16[8,6] convert(x)
  sums = f32[8,6] all-reduce(x), replica_groups={{{{0,3}},{{1,2}}}}, to_apply=add
  uneven = f32[8,6] all-reduce(x), replica_groups={{{{2,0,1}},{{3}}}}, to_apply=add
  parts = f32[2,6] reduce-scatter(sums), replica_groups={{}}, dimensions={{0}}, to_apply=add
  halves = bf16[8,24] all-gather(h), replica_groups={{}}, dimensions={{1}}
  turned = f32[8,6] all-to-all(uneven), replica_groups={{{{3,1,2,0}}}}, dimensions={{0}}
  moved = f32[8,6] collective-permute(x), source_target_pairs={{{{0,3}},{{3,0}},{{1,2}}}}
  empty = f32[0,6] slice(x), slice={{[4:4],[0:6]}}
  nothing = f32[0,24] all-gather(empty), replica_groups={{}}, dimensions={{1}}
  scalar = f32[] constant(3)
  one = f32[] all-reduce(scalar), replica_groups={{}}, to_apply=add
  ROOT r = (f32[8,6], f32[2,6], bf16[8,24], f32[8,6], f32[8,6], f32[0,24], f32[])
    tuple(sums, parts, halves, turned, moved, nothing, one)
}}"""
LOOP = f"""HloModule turns, replica_count=4
{ADD}goes_on {{
  s = (f32[2]) parameter(0)
  x = f32[2] get-tuple-element(s), index=0
  first = f32[1] slice(x), slice={{[0:1]}}
  y = f32[] reshape(first)
  limit = f32[] constant(40)
  ROOT r = pred[] compare(y, limit), direction=LT
}}
body {{
  s = (f32[2]) parameter(0)
  x = f32[2] get-tuple-element(s), index=0
  sum = f32[2] all-reduce(x), replica_groups={{{{0,3}},{{1,2}}}}, to_apply=add
  ROOT r = (f32[2]) tuple(sum)
}}
ENTRY e {{
  x = f32[2] parameter(0)
  s = (f32[2]) tuple(x)
  w = (f32[2]) while(s), condition=goes_on, body=body
  y = f32[2] get-tuple-element(w), index=0
  ROOT r = f32[2] all-reduce(y), replica_groups={{}}, to_apply=add
}}"""


def executable(source: str) -> SegmentedExecutable:
    module = module_for_chips(source, Options())
    assert module is not None
    return compile_chips_module(module, Options()).local


@pytest.fixture(scope="module")
def exchanges() -> SegmentedExecutable:
    return executable(EXCHANGES)


@pytest.fixture(scope="module")
def loop() -> SegmentedExecutable:
    return executable(LOOP)


@pytest.fixture(name="pair")
def made_pair() -> Iterator[list[Pod]]:
    made = pods([2, 2], patience=0.8)
    yield made
    for pod in made:
        pod.close()


def inputs_of(shape: tuple[int, ...]) -> list[list[Any]]:
    rng = np.random.default_rng(1)
    return [[rng.standard_normal(shape).astype(np.float32)] for _ in range(4)]


def failures(futures: Sequence[Any]) -> list[str]:
    return [str(future.exception()) for future in futures]


@pytest.mark.parametrize("num_chips", [[2, 2], [1, 1, 1, 1], [1, 3]], ids=str)
def test_every_exchange_gives_the_same_bits_as_in_one_process(exchanges: SegmentedExecutable, num_chips: list[int]) -> None:
    inputs = inputs_of((8, 6))
    expected = exchanges.launch_all(inputs)
    members = pods(num_chips)
    for _ in range(2):
        found: dict[int, list[Any]] = {}
        for future in launched(members, [exchanges] * len(members), inputs):
            found |= future.result()
        for chip in range(4):
            for actual, wanted in zip(found[chip], expected[chip], strict=True):
                assert (actual.dtype, actual.shape, actual.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes())
    for pod in members:
        pod.close()


def test_chips_leave_a_loop_at_different_times(loop: SegmentedExecutable, pair: list[Pod]) -> None:
    inputs = [[np.array([n, 1], np.float32)] for n in (1, 8, 2, 3)]
    expected = loop.launch_all(inputs)
    first, second = (future.result() for future in launched(pair, [loop] * 2, inputs))
    for chip, own in (first | second).items():
        np.testing.assert_array_equal(own[0], expected[chip][0])


def test_chips_that_disagree_are_told_so_and_the_pod_goes_on(loop: SegmentedExecutable, pair: list[Pod]) -> None:
    apart = [[np.array([n, 1], np.float32)] for n in (1, 8, 2, 50)]
    errors = [future.exception() for future in launched(pair, [loop] * 2, apart)]
    assert any(isinstance(error, HostError) and "disagree" in str(error) for error in errors)
    inputs = [[np.array([n, 1], np.float32)] for n in (1, 8, 2, 3)]
    for future in launched(pair, [loop] * 2, inputs):
        future.result()


def test_a_process_that_dies_is_named(exchanges: SegmentedExecutable, pair: list[Pod]) -> None:
    pair[1].peers[0].connection.shutdown(socket.SHUT_RDWR)  # what the kernel does for a process that is killed
    begun = time.monotonic()
    for said in failures(launched(pair, [exchanges] * 2, inputs_of((8, 6)))):
        assert "E1015" in said and "died or cannot be reached" in said and "(pid " in said
    assert time.monotonic() - begun < 5


def test_a_process_that_ends_says_why(exchanges: SegmentedExecutable, pair: list[Pod]) -> None:
    pair[1].leave("ValueError: 3")
    futures = launched(pair[:1], [exchanges], inputs_of((8, 6)))
    assert "process 1 (pid" in failures(futures)[0] and "has ended: ValueError: 3" in failures(futures)[0]


def test_an_idle_process_is_waited_for_so_long_and_a_busy_one_longer(exchanges: SegmentedExecutable, pair: list[Pod]) -> None:
    begun = time.monotonic()
    pair[1].does = lambda: "" if time.monotonic() - begun > 1.2 else "it compiles"
    futures = launched(pair[:1], [exchanges], inputs_of((8, 6)))
    assert "did nothing for 0.8 seconds while process 0 waited for it in exchanges" in failures(futures)[0]
    assert 1.2 < time.monotonic() - begun < 8


def test_a_failure_in_one_process_is_heard_in_the_others(exchanges: SegmentedExecutable, pair: list[Pod]) -> None:
    inputs = inputs_of((8, 6))
    wrong: list[list[Any]] = [*inputs[:3], [np.zeros((8, 7), np.float32)]]
    said = failures(launched(pair, [exchanges] * 2, wrong))
    assert "process 1 (pid" in said[0] and "failed: " in said[0] and said[1] in said[0]
    for future in launched(pair, [exchanges] * 2, inputs):
        future.result()


def test_ctrl_c_ends_a_wait_and_the_others_hear_of_it(exchanges: SegmentedExecutable, pair: list[Pod]) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    inputs, begun = inputs_of((8, 6)), Begun("one", "exchanges")
    with pytest.raises(KeyboardInterrupt):
        exchanges.launch_here({0: inputs[0], 1: inputs[1]}, interrupt, PodProgram(pair[0], (0, 0, 1, 1), begun))
    with pytest.raises(PodError, match=r"process 0 \(pid .* failed: KeyboardInterrupt"):
        exchanges.launch_here({2: inputs[2], 3: inputs[3]}, None, PodProgram(pair[1], (0, 0, 1, 1), begun))
    for future in launched(pair, [exchanges] * 2, inputs):
        future.result()


def test_other_programs_are_refused(exchanges: SegmentedExecutable, pair: list[Pod]) -> None:
    for said in failures(launched(pair, [exchanges] * 2, inputs_of((8, 6)), ["one", "another"])):
        assert "runs another program" in said and "exchanges, another" in said and "exchanges, one" in said


def test_who_does_not_come_is_named() -> None:
    values = Values()
    futures = all_do(2, lambda n: join(values, Membership(n, 4, 2, arrival=0.3), "pod"))
    assert "processes 2, 3 of 4 did not come in 0.3 seconds; process 1 waited" in failures(futures)[1]


def test_versions_must_be_the_same() -> None:
    values = Values()
    own = [Membership(n, 2, 1, equal={"jaxlib": version}, arrival=2.0) for n, version in enumerate(("0.10.1", "0.10.2"))]
    for said in failures(all_do(2, lambda n: join(values, own[n], "pod"))):
        assert "process 1 (pid" in said and "has jaxlib 0.10.2, and process 0" in said


def test_another_host_needs_an_address() -> None:
    values = Values()
    values.put(
        "pod/process/1",
        json.dumps({"number": 1, "num_chips": 1, "host": "far", "pid": 1, "address": "127.0.0.1", "port": 1, "equal": {}}),
    )
    with pytest.raises(PodError, match="listens to its own host only"):
        join(values, Membership(0, 2, 1, arrival=1.0), "pod")


def test_strangers_are_kept_out() -> None:
    """One without the token, one that says nothing, one that says nonsense: the process that belongs there is still let in."""
    values, own = Values(), Membership(0, 2, 1, arrival=10.0)

    def work(n: int) -> Pod | None:
        if n == 0:
            return join(values, own, "pod")
        port = json.loads(values.get("pod/process/0", 5.0) or "")["port"]
        silent, rude, thief = (socket.create_connection(("127.0.0.1", port), 5.0) for _ in range(3))
        rude.sendall(b"GET / HTTP/1.1\r\n" * 20)
        guessing = ThreadPoolExecutor(1).submit(introduce, thief, b"guess", 1, 0)
        pod = join(values, replace(own, number=1), "pod")
        with pytest.raises((WireError, OSError)):
            guessing.result()
        assert silent.fileno() > 0
        return pod

    for future in all_do(2, work):
        pod = future.result()
        assert pod is not None and len(pod.peers) == 1
        pod.close()


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (SIZES.pack(MOST_HEAD_BYTES + 1, 0), "are allowed"),
        (SIZES.pack(2, 1 << 60) + b"{}", "are allowed"),
        (SIZES.pack(2, 0) + b"[]", "no object"),
        (SIZES.pack(2, 0) + b"{]", "no JSON"),
        (SIZES.pack(15, 0) + b'{"kind": "rob"}', "of kind 'rob'"),
    ],
)
def test_messages_are_checked(exchanges: SegmentedExecutable, pair: list[Pod], message: bytes, said: str) -> None:
    pair[1].peers[0].connection.sendall(message)
    assert said in failures(launched(pair[:1], [exchanges], inputs_of((8, 6))))[0]
    assert exchanges.launch_all(inputs_of((8, 6)))
