"""Netlists on the chip: every sample is near what numpy computes, formats lie packed in memory, what cannot run is refused."""

from pathlib import Path

import jax
import numpy as np
import pytest

from hlo2tx8.errors import InputError, NetlistRunError, UnsupportedError
from hlo2tx8.netlist.compare import compare
from hlo2tx8.netlist.config import TestConfig
from hlo2tx8.netlist.elementwise import UNARY
from hlo2tx8.netlist.epochs import executed_epochs
from hlo2tx8.netlist.formats import FORMATS, round_to
from hlo2tx8.netlist.golden import outputs_of, rules_of, run_golden, run_netlist
from hlo2tx8.netlist.instances import expand
from hlo2tx8.netlist.model import Netlist
from hlo2tx8.netlist.reader import read_file, read_netlist
from hlo2tx8.netlist.storage import at_rest, element_of, stored, to_device, to_host
from hlo2tx8.netlist.tensors import Tensor
from hlo2tx8.netlist.tx8 import Tx8
from hlo2tx8.options import Options

SAMPLES = Path(__file__).parents[3] / "hlo_samples" / "netlists"


def on_chip(netlist: Netlist) -> Tx8:
    return Tx8(rules_of(netlist, netlist.devices.arches[-1]), Options(mode="strict"))


@pytest.mark.parametrize("file", sorted(SAMPLES.glob("*.yaml")), ids=lambda file: file.stem)
def test_a_sample_on_the_chip_is_near_what_numpy_computes(file: Path):
    netlist = read_file(file)
    chip = on_chip(netlist)
    found = run_netlist(netlist, chip, None, {})
    expected = run_golden(netlist, netlist.devices.arches[-1], None, {})
    config = (netlist.test_config or TestConfig()).comparison
    verdicts = {name: compare(found[name], expected[name], config) for name in outputs_of(expand(netlist))}
    assert [name for name, verdict in verdicts.items() if not verdict.agrees] == []
    assert len(chip.compiled) < sum(inputs * count for (_, _, inputs), count in chip.runs.items())


@pytest.mark.parametrize("name", [name for name, format in FORMATS.items() if format.family != "raw"])
def test_what_a_format_has_lies_in_memory_as_it_is(name: str):
    format = FORMATS[name]
    numbers = np.random.default_rng(3).normal(0, 40, (2, 32, 64)).astype(np.float32)
    numbers[0, :3, ::5] = 0
    exact = round_to(numbers, format)
    lying = to_device(Tensor(exact, format), format)
    assert np.array_equal(to_host(lying, format).data, exact)
    if isinstance(lying, tuple):
        assert format.family == "block"
        assert {part.dtype for part in lying} == {np.dtype(np.uint8)}
        assert [part.shape[2] for part in lying] == [64 * (format.bits + 1) // 8, 64 // 16]
    else:
        assert lying.dtype == element_of(format)


def test_what_is_too_large_for_halves_is_their_largest_or_refused():
    half = FORMATS["Float16"]
    assert at_rest(np.array([[[1e5, -np.inf]]], np.float32), half).tolist() == [[[65504, -65504]]]
    with pytest.raises(ValueError, match="100000 is more than 65504"):
        to_device(Tensor(np.full((1, 32, 32), 1e5, np.float32), half), half)


def test_an_encoding_that_an_op_makes_is_refused_before_anything_runs():
    text = (SAMPLES / "sparse.yaml").read_text().replace("inputs: [tiles, x, words]", "inputs: [tiles, x, kept]")
    text = text.replace(
        "    product: {",
        "    kept: {type: datacopy, grid_loc: [2, 0], grid_size: [1, 1], inputs: [words], t: 1, mblock: [1, 1], ublock: [1, 1],"
        " in_df: [RawUInt32], out_df: RawUInt32, intermed_df: RawUInt32, acc_df: Float16_b, ublock_order: r, buf_size_mb: 2,"
        " math_fidelity: HiFi3}\n    product: {",
    )
    netlist = read_netlist(text, "made")
    with pytest.raises(UnsupportedError, match="matmul: its encoding is made by an op, and the host has to read it at product"):
        on_chip(netlist).prepare(executed_epochs(netlist))


def test_a_row_that_a_table_does_not_have_is_an_error():
    netlist = read_file(SAMPLES / "embedding.yaml")
    fed = {name: queue for name, queue in netlist.queues.items() if queue.is_fed_by_host}
    inputs = {name: np.full((queue.entries, *queue.host_shape), 99) for name, queue in fed.items()}
    with pytest.raises(NetlistRunError, match="op pick: the table has 64 rows, there is no row 99"):
        run_netlist(netlist, on_chip(netlist), inputs, {})


def test_longer_lists_than_were_compiled_are_refused_where_nothing_may_be():
    netlist = read_file(SAMPLES / "sparse.yaml")
    chip = on_chip(netlist)
    chip.is_fixed = True
    with pytest.raises(InputError, match="graph main: is not compiled for lists of"):
        run_netlist(netlist, chip, None, {})


def test_exponentials_stay_finite_in_bfloat16():
    """As with numpy, where they are the largest float32."""
    made = jax.jit(lambda x: UNARY["exp"](x, {}))(np.float32([100.0, 1.0]))
    assert np.isfinite(stored(np.asarray(made), FORMATS["Float16_b"]).astype(np.float32)).all()
