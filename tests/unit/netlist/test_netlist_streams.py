"""Streams of netlists: samples run from their blobs as numpy runs them, files load equal, what cannot work says where."""

import contextlib
import zlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from hlo2tx8.errors import ContainerError
from hlo2tx8.netlist.epochs import executed_epochs
from hlo2tx8.netlist.golden import rules_of, run_golden, run_netlist
from hlo2tx8.netlist.instances import expand
from hlo2tx8.netlist.model import Netlist
from hlo2tx8.netlist.pipes.arch import ARCHES
from hlo2tx8.netlist.pipes.backend import streams_of
from hlo2tx8.netlist.pipes.execute import Streamed
from hlo2tx8.netlist.pipes.files import HEADER, decode, encode, from_yaml, to_yaml
from hlo2tx8.netlist.pipes.links import loads, way
from hlo2tx8.netlist.pipes.loops import RunLoop, looped, unlooped
from hlo2tx8.netlist.pipes.model import Blob, PipeGraph, Run, runs_of, tiles_of_runs
from hlo2tx8.netlist.pipes.net2pipe import rectangles
from hlo2tx8.netlist.pipes.result import StreamFailure
from hlo2tx8.netlist.reader import read_file, read_netlist

SAMPLES = Path(__file__).parents[3] / "hlo_samples" / "netlists"
OP = "in_df: [{}], out_df: Float16_b, intermed_df: Float16_b, acc_df: Float16_b, ublock_order: r, math_fidelity: HiFi3"
ONE, TWO = OP.format("Float16_b"), OP.format("Float16_b, Float16_b")
QUEUE = "entries: 2, grid_size: [1, 1], t: 64, mblock: [1, 1], ublock: [1, 1], df: Float16_b, target_device: 0, loc: dram"
PLACE = "t: 64, mblock: [1, 1], ublock: [1, 1]"
FORK = f"""
devices: {{arch: wormhole_b0}}
queues:
  x: {{type: queue, input: HOST, {QUEUE}, dram: [[0, 0x10000000]]}}
  y: {{type: queue, input: join, {QUEUE}, dram: [[1, 0x10000000]]}}
graphs:
  main:
    target_device: 0
    input_count: 1
    feed: {{type: datacopy, grid_loc: [0, 0], grid_size: [1, 1], inputs: [x], {PLACE}, buf_size_mb: 2, {ONE}}}
    most: {{type: reduce, grid_loc: [0, 1], grid_size: [1, 1], inputs: [feed], t: 1, mblock: [1, 1], ublock: [1, 1], buf_size_mb: 2,
      {ONE}, attributes: {{dim: z, type: max, z: 64}}}}
    join: {{type: subtract, grid_loc: [0, 2], grid_size: [1, 1], inputs: [feed, most], {PLACE}, buf_size_mb: 2, {TWO},
      input_1_tms: [broadcast: {{z: 64}}]}}
programs:
  - main:
      - execute: {{graph_name: main, queue_settings: {{
          x: {{prologue: false, epilogue: false, zero: false, rd_ptr_local: 0, rd_ptr_global: 0}}}}}}
"""


def blobs_of(netlist: Netlist) -> list[Blob]:
    found, result = streams_of(netlist, netlist.devices.arches[-1])
    assert result.success
    return [blob for epoch in found for blob in epoch.blobs]


def failure_of(text: str) -> StreamFailure:
    netlist = read_netlist(text, "made")
    _, result = streams_of(netlist, netlist.devices.arches[-1])
    (failure,) = result.failures
    return failure


def run_streams(netlist: Netlist) -> dict[str, np.ndarray]:
    arch = netlist.devices.arches[-1]
    found, _ = streams_of(netlist, arch)
    blobs = {epoch.graph.name: [decode(encode(blob), "") for blob in epoch.blobs] for epoch in found}
    return run_netlist(netlist, Streamed(rules_of(netlist, arch), blobs, executed_epochs(expand(netlist))), None, {})


@pytest.mark.parametrize("file", sorted(SAMPLES.glob("*.yaml")), ids=lambda file: file.stem)
def test_a_sample_runs_from_its_blobs_as_numpy_runs_it(file: Path):
    netlist = read_file(file)
    found, expected = run_streams(netlist), run_golden(netlist, netlist.devices.arches[-1], None, {})
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("file", sorted(SAMPLES.glob("*.yaml")), ids=lambda file: file.stem)
def test_files_load_equal(file: Path):
    netlist = read_file(file)
    found, _ = streams_of(netlist, netlist.devices.arches[-1])
    for epoch in found:
        assert from_yaml(to_yaml(epoch.graph), PipeGraph, "") == epoch.graph
        for blob in epoch.blobs:
            assert decode(encode(blob), "") == blob == from_yaml(to_yaml(blob), Blob, "")
            assert encode(decode(encode(blob), "")) == encode(blob)


def test_pipes_bring_tiles_in_the_order_of_the_kernel():
    found, _ = streams_of(read_file(SAMPLES / "softmax.yaml"), "wormhole_b0")
    buffers = {buffer.id: buffer for buffer in found[0].graph.buffers}
    to_total = [pipe for pipe in found[0].graph.pipes if buffers[pipe.targets[0]].of == "total"]
    rows, left, right = to_total
    assert rows.kind == "multicast" and len(rows.targets) == 2
    assert tiles_of_runs(rows.runs)[1].tolist() == [0, 1, 4, 5, 2, 3, 6, 7]  # two tiles of depth, of both rows
    assert tiles_of_runs(left.runs)[1].tolist() == [0, 4, 1, 5, 8, 12, 9, 13]
    assert tiles_of_runs(right.runs)[1].tolist() == [2, 6, 3, 7, 10, 14, 11, 15]
    (gather,) = [pipe for pipe in found[0].graph.pipes if buffers[pipe.targets[0]].of == "inverse"]
    assert gather.kind == "gather"
    (store,) = [pipe for pipe in found[0].graph.pipes if buffers[pipe.targets[0]].kind == "queue"]
    assert sorted(tiles_of_runs(store.slots)[1].tolist()) == list(range(8))


def test_buffers_on_a_core_do_not_overlap():
    for blob in blobs_of(read_file(SAMPLES / "dense.yaml")):
        own = [b for b in blob.buffers if b.kind not in ("queue", "padding")]
        spans = [(b.address, b.address + b.bytes) for b in own]
        spans += [(s.address, s.address + s.tiles * s.tile_bytes) for s in blob.streams if s.kind == "read"]
        spans.sort()
        assert spans[0][0] >= ARCHES["wormhole_b0"].data_base
        assert all(first[1] <= second[0] for first, second in pairwise(spans))


def test_loads_of_links_and_channels_are_bytes_of_one_input():
    arch = ARCHES["wormhole_b0"]
    assert list(way(arch, 0, (9, 1), (0, 2))) == [((9, 1), (0, 1)), ((0, 1), (0, 2))]
    assert list(way(arch, 1, (0, 1), (9, 0))) == [((0, 1), (0, 0)), ((0, 0), (9, 0))]
    links, channels = loads(blobs_of(read_file(SAMPLES / "softmax.yaml")), arch)
    tile = 2080
    assert channels == {(0, 0): 8 * tile, (0, 1): 16 * tile, (0, 2): 8 * tile}
    assert links[0, 0, (1, 1), (2, 1)] == (8 + 2 + 2 + 2 + 2) * tile  # the multicast to total once, and a quarter to each of share
    assert links[0, 0, (2, 1), (3, 1)] == (8 + 2 + 2 + 4) * tile  # of total's first core to inverse, around the edge


def test_runs_are_the_tiles_that_they_are_of():
    numbers = np.random.default_rng(1)
    for _ in range(100):
        count = int(numbers.integers(0, 40))
        sources, tiles = numbers.integers(0, 2, count), numbers.integers(0, 4, count)
        back = tiles_of_runs(runs_of(sources, tiles))
        assert np.array_equal(back[0], sources) and np.array_equal(back[1], tiles)
    assert runs_of(np.zeros(6), np.array([0, 1, 4, 5, 8, 9])) == (Run(0, 0, 2, 4, 3),)


def test_runs_that_come_again_are_loops():
    two_sources = [Run(5 + 2 * (n % 2), n // 2 * 3, 2, 9, 4) for n in range(200)]
    odd = [Run(5, 900, 1), *two_sources, Run(7, 3, 3), *two_sources[:90], Run(5, 0, 1)]
    assert looped(two_sources) == (RunLoop((two_sources[0], two_sources[1]), (3, 3), 100),)
    assert [(len(loop.runs), loop.turns) for loop in looped(odd)] == [(1, 1), (2, 100), (1, 1), (2, 45), (1, 1)]
    numbers = np.random.default_rng(1)
    for _ in range(100):
        period, count = numbers.integers(1, 5), int(numbers.integers(0, 60))
        runs = tuple(Run(n % int(period), int(numbers.integers(0, 2)) + n // 3, 1 + n % 2) for n in range(count))
        assert unlooped(looped(runs)) == runs


def test_blobs_with_loops_are_of_version_2_and_others_are_read_as_before():
    blob = next(blob for blob in blobs_of(read_file(SAMPLES / "softmax.yaml")) if any(s.runs for s in blob.streams))
    stream = next(stream for stream in blob.streams if stream.kind == "receive")
    runs = tuple(Run(stream.runs[0].source, n % 2 + n // 2 * 8, 1, 2, 2) for n in range(3000))
    many = replace(blob, streams=tuple(replace(s, runs=runs) if s is stream else s for s in blob.streams))
    assert [encode(one)[4] for one in (blob, many)] == [1, 2]
    assert decode(encode(many), "") == many == from_yaml(to_yaml(many), Blob, "")
    assert len(encode(many)) < len(encode(blob)) + 2000
    assert to_yaml(blob).startswith("format_version: 1\n") and to_yaml(many).startswith("format_version: 2\n")
    data = bytearray(encode(many))
    for at in range(0, len(data), 7):  # every field once, with the checksum of the damaged file
        damaged = bytearray(data)
        damaged[at] ^= 0x15
        damaged[12:16] = zlib.crc32(damaged[HEADER.itemsize :]).to_bytes(4, "little")
        with contextlib.suppress(ContainerError):
            decode(bytes(damaged), "x")
    text = to_yaml(many)
    for old, new in (("1500]", "99999999]"), ("[8, 8], 1500", "[8], 1500"), ("[8, 8], 1500", "[8, 8], 0")):
        assert old in text
        with pytest.raises(ContainerError):
            from_yaml(text.replace(old, new), Blob, "x")


def test_cores_that_get_the_same_are_multicast_to_as_rectangles():
    assert list(rectangles([0, 1, 3, 4], (2, 3))) == [(0, 1, 3, 4)]
    assert list(rectangles([0, 2, 3, 5], (2, 3))) == [(0, 3), (2, 5)]
    assert list(rectangles([0, 4], (3, 2))) == [(0,), (4,)]


def test_a_fork_that_is_joined_behind_a_reduction_hangs_unless_there_is_room():
    failure = failure_of(FORK)
    assert failure.failure_type == "PipeGen" and "deadlock: waits for" in failure.message
    assert "room in input 0 of op join" in failure.message and "tiles in input 0 of op most" in failure.message
    roomy = read_netlist(FORK.replace("input_1_tms", "input_buf_min_size_tiles: [64, 0], input_1_tms"), "made")
    assert blobs_of(roomy)
    assert np.array_equal(run_streams(roomy)["y"], run_golden(roomy, "wormhole_b0", None, {})["y"])


def test_what_has_no_place_is_told_with_core_and_bytes():
    large = failure_of(FORK.replace("input_1_tms", "input_buf_min_size_tiles: [640, 64], input_1_tms"))
    assert (large.failure_type, large.op, large.core) == ("L1Size", "join", (0, 0, 2))
    assert large.maximum_bytes == 1499136 - 204 * 1024 and large.extra_bytes == large.allocated_bytes - large.maximum_bytes > 0
    outside = failure_of(FORK.replace("grid_loc: [0, 2]", "grid_loc: [0, 8]"))
    assert outside.failure_type == "Net2Pipe" and outside.message == "op join: core [0, 8] is not on the grid of 10x8"
    assert failure_of(FORK.replace("[[1, 0x1", "[[7, 0x1")).message == "queue y: there is no DRAM channel 7 of 6"
    assert "buf_size_mb 3 is odd" in failure_of(FORK.replace("buf_size_mb: 2", "buf_size_mb: 3", 1)).message


def test_damaged_blobs_are_refused():
    blob = next(blob for blob in blobs_of(read_file(SAMPLES / "softmax.yaml")) if blob.op == "total")
    data = encode(blob)
    for length in range(0, len(data), 7):
        with pytest.raises(ContainerError, match="is no blob"):
            decode(data[:length], "made")
    numbers = np.random.default_rng(2)
    for _ in range(300):
        bad = bytearray(data)
        bad[int(numbers.integers(HEADER.itemsize, len(data)))] ^= int(numbers.integers(1, 256))
        with pytest.raises(ContainerError, match="checksum"):
            decode(bytes(bad), "made")
        bad[12:16] = zlib.crc32(bytes(bad[HEADER.itemsize :])).to_bytes(4, "little")
        try:
            decode(bytes(bad), "made")
        except ContainerError:
            continue
    endless = replace(blob.streams[0], runs=(Run(0, 0, 1 << 31, 0, 1 << 31),))
    with pytest.raises(ContainerError, match="tiles that there are not"):
        decode(encode(replace(blob, streams=(endless,))), "made")
    low, high = (replace(buffer, address=buffer.address + more) for buffer, more in zip(blob.buffers[:2], (32, 0), strict=True))
    moved = tuple(replace(s, address=low.address) if s.buffer == low.id else s for s in blob.streams)
    with pytest.raises(ContainerError, match="its buffers overlap"):
        decode(encode(replace(blob, buffers=(low, high, *blob.buffers[2:]), streams=moved)), "made")
    with pytest.raises(ContainerError, match="has not the memory of buffer"):
        decode(encode(replace(blob, buffers=(low, high, *blob.buffers[2:]))), "made")
    for text in ("a: &a [1]", "{", "format_version: 2", "[[" * 4000, to_yaml(blob).replace('"tiles"', '"tile"')):
        with pytest.raises(ContainerError, match="cannot be read"):
            from_yaml(text, Blob, "made")


def test_blobs_of_another_netlist_are_refused():
    netlist = read_file(SAMPLES / "softmax.yaml")
    blobs = blobs_of(netlist)
    rules, epochs = rules_of(netlist, "wormhole_b0"), executed_epochs(netlist)
    with pytest.raises(ContainerError, match="not those of its cores"):
        Streamed(rules, {"softmax": blobs[:-1]}, epochs)
    first, *others = blobs
    cut = replace(first, streams=tuple(stream for stream in first.streams if stream.kind != "receive"))
    with pytest.raises(ContainerError, match="waits for"):
        Streamed(rules, {"softmax": [cut, *others]}, epochs)


def test_a_core_may_get_nothing_but_padding():
    text = (
        (SAMPLES / "softmax.yaml")
        .read_text()
        .replace("inputs: [total], t: 1, mblock: [2, 4]", "inputs: [total], t: 1, mblock: [2, 8]")
    )
    text = text.replace(
        "inverse: {type: reciprocal, grid_loc: [1, 0], grid_size: [1, 1]",
        "inverse: {type: exp, grid_loc: [3, 0], grid_size: [1, 2]",
    )
    text = text.replace("math_fidelity: HiFi3}\n    share", "math_fidelity: HiFi3, input_0_tms: [pad: [0, 12, 2.0]]}\n    share")
    text = text.replace("inputs: [power, inverse], t: 1,", "inputs: [power, inverse], t: 1, input_1_unpad: {ct: 12},")
    netlist = read_netlist(text, "made")
    assert any("padding" in {b.kind for b in blob.buffers} - {"queue"} for blob in blobs_of(netlist) if blob.op == "inverse")
    assert np.array_equal(run_streams(netlist)["shares"], run_golden(netlist, "wormhole_b0", None, {})["shares"])


def test_what_a_kernel_keeps_is_brought_once():
    kept = FORK.replace(
        "input_1_tms: [broadcast: {z: 64}]", "input_1_tms: [broadcast: {z: 64}], attributes: {kernel_broadcast: {input_1: 1}}"
    )
    netlist = read_netlist(kept.replace("input_1_tms", "input_buf_min_size_tiles: [64, 0], input_1_tms"), "made")
    (join,) = (blob for blob in blobs_of(netlist) if blob.op == "join")
    assert [(b.tiles, b.input_tiles) for b in join.buffers if b.kind == "input"] == [(64, 64), (2, 1)]
    assert np.array_equal(run_streams(netlist)["y"], run_golden(netlist, "wormhole_b0", None, {})["y"])
