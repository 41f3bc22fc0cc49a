"""Netlists are read, refused with the name of what is wrong, and written so that they read back equal."""

import random
from pathlib import Path

import pytest

from hlo2tx8.dev.damage import damaged_text
from hlo2tx8.errors import NetlistError
from hlo2tx8.netlist.checks import problems_of
from hlo2tx8.netlist.model import Netlist
from hlo2tx8.netlist.reader import read_file, read_netlist
from hlo2tx8.netlist.show import show_netlist
from hlo2tx8.netlist.writer import write_netlist

SAMPLES = sorted((Path(__file__).parents[3] / "hlo_samples" / "netlists").glob("*.yaml"))
SOFTMAX, FUSED = (next(path for path in SAMPLES if path.stem == name).read_text() for name in ("softmax", "fused"))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_samples_break_no_rule_and_read_back_equal(path: Path):
    netlist = read_file(path)
    assert [problem.message for arch in netlist.devices.arches for problem in problems_of(netlist, arch)] == []
    written = write_netlist(netlist)
    assert (again := read_netlist(written, "again")) == netlist
    assert write_netlist(again) == written
    assert all(f"graph {graph}" in show_netlist(netlist) for graph in netlist.graphs)


def changed(text: str, old: str, new: str) -> Netlist:
    assert old in text
    return read_netlist(text.replace(old, new), "changed.yaml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("entries: 4", "entires: 4", "queue scores: unknown field 'entires'; did you mean entries?"),
        ("entries: 4", "entries: many", "queue scores, field entries: 'many' is not an integer"),
        ("df: Float16_b", "df: Float17", "queue scores, field df: unknown data format 'Float17'; did you mean Float16?"),
        ("type: exp", "type: expo", "graph softmax, op power: unknown op type 'expo'; did you mean exp?"),
        ("HiFi3}", "HiFi5}", "graph softmax, op power, field math_fidelity: 'HiFi5' is none of"),
        ("u_kt: 2", "u_tk: 2", "graph softmax, op total: unknown attribute of matmul 'u_tk'; did you mean u_kt?"),
        ("HiFi3}", "HiFi3, attributes: {slope: 1}}", "graph softmax, op power: unknown attribute of exp 'slope'"),
        ("HiFi3}", "HiFi3, input_0_tms: [turn: 2]}", "op power, field input_0_tms, turn: unknown tensor manipulation 'turn'"),
        ("HiFi3}", "HiFi3, input_1_tms: [transpose]}", "op power: field input_1_tms: the op has 1 inputs"),
        ("- endloop", "- endlop", "program main, instruction 6: unknown program instruction 'endlop'; did you mean endloop?"),
        ("incwrap, $c_inputs", "incwrap", "program main, instruction 4, varinst: incwrap has 1 arguments instead of 2"),
        ("zero: false", "null: false", "execute, settings of scores: unknown setting 'null'"),
        ("arch:", "arc:", "devices: unknown field 'arc'; did you mean arch?"),
        ("wormhole_b0]", "gizzard]", "devices, field arch: 'gizzard' is none of"),
        ("loop: 2", "loop: 0", "loop: the count 0 is less than 1"),
        ("AllCloseHw", "Near", "test-config, comparison-config, field type: 'Near' is none of"),
        ("programs:", "programms:", "has no section programs"),
        ("- main:", "- main: }", "not YAML"),
    ],
)
def test_what_is_unknown_is_refused_by_name(old: str, new: str, message: str):
    with pytest.raises(NetlistError, match=r"^") as refusal:
        changed(SOFTMAX, old, new)
    assert message in str(refusal.value)
    assert "changed.yaml" in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (SOFTMAX, "[[0, 0x10000000]]", "[]", "queue scores: field dram: 0 addresses for a grid of 1 buffers"),
        (SOFTMAX, "inputs: [scores]", "inputs: [source]", "op power: field inputs: there is no op or queue source"),
        (SOFTMAX, "input: share", "input: part", "queue shares: field input: there is no op part"),
        (SOFTMAX, "grid_loc: [1, 0]", "grid_loc: [0, 0]", "op inverse: shares core [0, 0] with op power in graph softmax"),
        (SOFTMAX, "m_k: 2", "m_k: 3", "op total: m_k 3 times u_kt 2 is 6, not the 4 tile rows of input 1"),
        (
            SOFTMAX,
            "acc_df: Float16_b, ublock_order: r",
            "acc_df: Float16_b, ublock_order: c",
            "op total: field ublock_order: is r for matmul",
        ),
        (SOFTMAX, "ublock: [2, 4]", "ublock: [3, 4]", "op power: field ublock: 3x4 tiles do not fit into dest, which holds 8"),
        (SOFTMAX, "acc_df: Float16_b", "acc_df: Float32", "op power: field acc_df: grayskull has no Float32 in dest"),
        (SOFTMAX, "entries: 4", "entries: 3", "field entries of queue scores: 3 is no multiple of input_count 2"),
        (SOFTMAX, "rd_ptr_local: $local, ", "", "settings of scores: has no setting rd_ptr_local, which a queue needs"),
        (
            SOFTMAX,
            "rd_ptr_local: $local",
            "rd_ptr_local: $locale",
            "settings of scores: setting rd_ptr_local: there is no variable $locale",
        ),
        (SOFTMAX, "- endloop", "- endloop\n      - endloop", "program main: endloop without loop"),
        (SOFTMAX, "graph_name: softmax", "graph_name: hardmax", "program main: execute: there is no graph hardmax"),
        (SOFTMAX, "in_df: [Float16_b]", "in_df: []", "op power: field in_df: 0 formats for 1 inputs"),
        (FUSED, "pop: [intermed0], ", "", "op size: field output: intermed0 is never popped"),
        (FUSED, "inputs: [dest]", "inputs: [input0]", "op size: field inputs: dest, which the op before writes, is not read"),
        (FUSED, "inputs: [intermed0, input1]", "inputs: [intermed1, input1]", "op mix: field inputs: intermed1 holds nothing"),
        (FUSED, "u_kt: 2", "u_kt: 1", "op mix: attributes m_k 1 and u_kt 1 are not the 2 tile columns of intermed0"),
        (FUSED, "fused_op_id: gate", "fused_op_id: door", "op layer: attribute fused_op_id: there is no fused op door"),
        (FUSED, "inputs: [x, w, b]", "inputs: [x, w, b, b]", "op layer: field inputs: 4 instead of 3"),
    ],
)
def test_broken_rules_are_named(text: str, old: str, new: str, message: str):
    found = [problem.message for problem in problems_of(changed(text, old, new), "grayskull")]
    assert any(message in problem for problem in found), found


def test_duplicate_keys_and_odd_values():
    text = SOFTMAX.replace("entries: 4", "entries: 1, entries: 0x4").replace("staticvar: {$local", "staticvar: {local")
    text = text.replace("HiFi3}", "HiFi3, input_0_tms: [broadcast: {z: 1}], input_0_tms: None, input_0_tms: [hslice: 1]}", 1)
    netlist = read_netlist(text.replace("prologue: true", "prologue: TRUE"), "odd.yaml")
    assert [str(tm) for tm in netlist.ops["power"].tms[0]] == ["broadcast z 1", "hslice 1"]
    assert netlist.queues["scores"].entries == 4
    assert problems_of(netlist, "grayskull") == []


@pytest.mark.parametrize("text", ["", "[1, 2]", "a: *b", "[" * 500, "? [1]\n: 2", "--- {}\n--- {}", "\0", "<<: 1\nb: 2"])
def test_other_texts_are_refused(text: str):
    with pytest.raises(NetlistError):
        read_netlist(text, "other.yaml")


def test_damaged_files_are_read_or_refused():
    for seed in range(150):
        rng = random.Random(seed)
        try:
            netlist = read_netlist(damaged_text(SAMPLES[seed % len(SAMPLES)].read_text(), rng), "damaged.yaml")
        except NetlistError:
            continue
        for arch in netlist.devices.arches:
            problems_of(netlist, arch)
        assert read_netlist(write_netlist(netlist), "again.yaml") == netlist


def test_graphs_that_run_together_are_on_devices_of_their_own():
    text = next(path for path in SAMPLES if path.stem == "two_devices").read_text()
    feeder = text[text.index("  feeder:") : text.index("programs:")].rstrip()
    again = feeder.replace("feeder:", "again:").replace("first:", "second:").replace("inputs: [a]", "inputs: [power]")
    netlist = read_netlist(text.replace(feeder, f"{feeder}\n{again}"), "again.yaml")
    found = [problem.message for problem in problems_of(netlist, "wormhole_b0")]
    assert found == ["graphs last, feeder, again: of one temporal epoch, and two on one device"]
