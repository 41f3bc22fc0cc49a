"""The child of netlists.py: one netlist run on its own stimulus and compared."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from pool import Outcome, serve

from hlo2tx8.errors import CapacityError, NetlistError, NetlistRunError, UnsupportedError
from hlo2tx8.netlist.checks import problems_of
from hlo2tx8.netlist.compare import compare
from hlo2tx8.netlist.config import TestConfig
from hlo2tx8.netlist.epochs import Segment, executed_epochs
from hlo2tx8.netlist.formats import Array
from hlo2tx8.netlist.golden import outputs_of, rules_of, run_golden, run_netlist
from hlo2tx8.netlist.instances import expand
from hlo2tx8.netlist.model import Netlist
from hlo2tx8.netlist.pipes.backend import streams_of
from hlo2tx8.netlist.pipes.execute import Streamed
from hlo2tx8.netlist.pipes.files import decode, encode
from hlo2tx8.netlist.pipes.result import BackendError
from hlo2tx8.netlist.reader import read_file
from hlo2tx8.netlist.segment_function import function_of
from hlo2tx8.netlist.stimulus import config_of
from hlo2tx8.netlist.tx8 import Tx8, formats_of
from hlo2tx8.options import Options


def answer(request: dict[str, Any]) -> Outcome:
    """Run and judge one case."""
    try:
        netlist = read_file(Path(request["path"]))
    except NetlistError as error:
        return _left_out("malformed", error)
    arch = next((arch for arch in netlist.devices.arches if not problems_of(netlist, arch)), None)
    if arch is None:
        return {"outcome": "skipped", "cause": "breaks a rule of its architectures"}
    whole = expand(netlist)
    if any(tensor.shape.num_tiles > request["tiles"] for tensor in (*whole.queues.values(), *whole.ops.values())):
        return {"outcome": "skipped", "cause": f"tensors of more than {request['tiles']} tiles"}
    if any(op.type == "dropout" for op in whole.ops.values()):
        return {"outcome": "skipped", "cause": "random numbers"}
    try:
        found = expected = run_golden(netlist, arch, None, {})
    except (NetlistRunError, CapacityError) as error:
        return _left_out("cannot go on alone", error)
    if request["on"] == "golden":
        if not _first_wrong(whole, netlist, found, run_golden(netlist, arch, None, {}, exact=True)):
            return {"outcome": "passed", "cause": "", "judge": "float64"}
        expected = run_netlist(netlist, OnXla(rules_of(netlist, arch), Options(), "chip"), None, {})
    elif request["on"] == "streams":
        epochs, result = streams_of(netlist, arch)
        for failure in result.failures:
            return _left_out(f"streams: {failure.failure_type}", BackendError(failure))
        blobs = {epoch.graph.name: [decode(encode(blob), "blob") for blob in epoch.blobs] for epoch in epochs}
        found = run_netlist(netlist, Streamed(rules_of(netlist, arch), blobs, executed_epochs(whole)), None, {})
    else:
        chip = Tx8(rules_of(netlist, arch), Options(), request["placement"])
        try:
            chip.prepare(executed_epochs(whole))
        except UnsupportedError as error:
            return {"outcome": "failed", "cause": str(error).splitlines()[-1].strip()}
        found = run_netlist(netlist, chip, None, {})
    wrong = _first_wrong(whole, netlist, found, expected)
    return {
        "outcome": "failed" if wrong else "passed",
        "cause": wrong,
        "judge": "XLA:CPU" if request["on"] == "golden" else "numpy",
    }


class OnXla(Tx8):
    """XLA:CPU in the chip's place: its own sums and functions, in the netlist's formats."""

    def _compile(self, segment: Segment, lists: Mapping[str, Sequence[Array]], inputs: int) -> Any:
        return jax.jit(function_of(segment, formats_of(segment), self.rules, {}))


def _first_wrong(whole: Netlist, netlist: Netlist, found: Mapping[str, Array], expected: Mapping[str, Array]) -> str:
    """What is wrong with an output; empty if all agree as the comparison-config says."""
    config = (netlist.test_config or TestConfig()).comparison
    for name, queue in outputs_of(whole).items():
        verdict = compare(found[name], expected[name], config_of(config, queue))
        if not verdict.agrees:
            shares = f"{verdict.least_pct:.1%} of elements close, correlation {verdict.least_pcc:.4f}"
            return f"wrong answer: {queue.df.name}, {shares}"
    return ""


def _left_out(what: str, error: Exception) -> Outcome:
    text = re.sub(r"\b(?:program|graph|op|queue|ram) \S+|\d+", "..", str(error.args[0]))
    return {"outcome": "skipped", "cause": f"{what}: {text[:80]}"}


if __name__ == "__main__":
    serve(answer)
