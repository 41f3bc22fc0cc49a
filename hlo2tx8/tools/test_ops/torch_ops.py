"""torch's own samples of its ops: those of torch.testing's OpInfo entries (kind op) and of torch.nn's modules (kind nn).

Of each entry and element type some samples are taken, spread over all that it has; each is exported, compiled, run and compared
with torch itself. Left out: ops that draw random numbers, and samples in which the result's shape, or Python's way, depends on what
is computed.
"""

# pyright: basic

import re
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import hlo2tx8
from hlo2tx8.tools.test_ops.cases import Outcome, cause_of
from hlo2tx8.tools.test_ops.suites import Suite

torch: Any = import_module("torch")
pytree: Any = import_module("torch.utils._pytree")
op_db: Any = import_module("torch.testing._internal.common_methods_invocations").op_db
module_db: Any = import_module("torch.testing._internal.common_modules").module_db

RANDOM = re.compile(
    r"bernoulli|cauchy|dropout|exponential|geometric|log_normal|multinomial|(^|_)normal|rand|uniform|rrelu|fractional_max_pool"
    r"|empty|svd_lowrank|pca_lowrank"
)
OTHERS = re.compile(r"allclose|^equal$|partial_views|ctc_loss|jiterator|sparse|multi_head_attention_forward|^argsort")
"""Results of Python or sparse ones, memory behind a tensor, dropout inside, the order of equal elements."""
DATA_DEPENDENT = re.compile(r"depends on what is computed|DataDependent|DynamicOutputShape|UnbackedSymbol|made of what is computed")
"""Errors of samples that are left out."""
DTYPES = {"float32": torch.float32, "int64": torch.int64, "bool": torch.bool}


class Called(torch.nn.Module):
    """An op as a module of the tensors among its arguments; it returns all tensors of what the op gives, after `process`, by which
    a sample takes away what is not determined, as signs of vectors."""

    def __init__(self, op: Any, arguments: Any, process: Any = lambda results: results) -> None:
        super().__init__()
        self.op, self.process = op, process
        leaves, self.tree = pytree.tree_flatten(arguments)
        self.places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = [leaves[k].detach().clone() for k in self.places]
        self.rest = [None if k in self.places else leaf for k, leaf in enumerate(leaves)]

    def forward(self, *tensors: Any) -> Any:
        leaves = list(self.rest)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        results = self.process(self.op(*args, **kwargs))
        return [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]


def skip_cause(name: str) -> str:
    """Why an op is not for this runner; empty if it is."""
    if RANDOM.search(name):
        return "draws random numbers, or gives memory as it is"
    return "results of Python, sparse ones, or such as are not determined" if OTHERS.search(name) else ""


def requests(kind: str, samples: int) -> Sequence[dict[str, Any]]:
    """Each op in each of three element types that it takes, and each module."""
    found: list[dict[str, Any]] = []
    if re.fullmatch(kind, "op"):
        found += [
            {"case": f"op/{name}/{dtype}", "op": name, "dtype": dtype, "skip": skip_cause(name)}
            for name, op in ops().items()
            for dtype, kind in DTYPES.items()
            if kind in op.dtypes
        ]
    if re.fullmatch(kind, "nn"):
        names = dict.fromkeys(info.name for info in module_db)
        found += [{"case": f"nn/{name}/float32", "op": name, "dtype": "float32", "skip": ""} for name in names]
    return [request | {"samples": samples} for request in found]


@cache
def ops() -> dict[str, Any]:
    """Entries by name."""
    return {op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""): op for op in op_db}


TIES = {"sort", "msort", "topk", "kthvalue", "mode"}
"""Ops that say of equal elements the place of any."""


def spread(items: list[Any], count: int) -> list[Any]:
    """So many of them, the first and the last among these."""
    if len(items) <= count:
        return items
    return [items[k * (len(items) - 1) // max(count - 1, 1)] for k in range(count)]


def samples_of_op(name: str, dtype: Any, count: int) -> Iterator[tuple[Any, list[Any]]]:
    """Modules and their inputs."""
    op = ops()[name]
    torch.manual_seed(0)
    for sample in spread(list(op.sample_inputs("cpu", dtype)), count):
        call = Called(op.op, ((sample.input, *sample.args), sample.kwargs), sample.output_process_fn_grad)
        yield call, call.tensors


def samples_of_module(name: str, dtype: Any, count: int) -> Iterator[tuple[Any, list[Any]]]:
    """The same of a module of torch.nn, in the mode for inference."""
    info = next(info for info in module_db if info.name == name)
    torch.manual_seed(0)
    samples = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=False, training=False)
    for sample in spread([s for s in samples if s.forward_input is not None], count):
        given = sample.constructor_input
        module = info.module_cls(*given.args, **given.kwargs).to(dtype).eval()
        call = Called(module, (sample.forward_input.args, sample.forward_input.kwargs))
        yield call, call.tensors


def difference(actual: Any, expected: Any) -> str:
    """What is wrong with a result, of which 2e-4 of an element and 2e-6 of the greatest are allowed; empty if nothing is."""
    finite = expected.abs().nan_to_num(0, 0, 0) if expected.is_floating_point() or expected.is_complex() else expected.new_zeros(1)
    most = float(finite.max()) if finite.numel() else 0.0
    try:
        torch.testing.assert_close(actual, expected, rtol=2e-4, atol=max(2e-5, 2e-6 * most), equal_nan=True, check_stride=False)
    except AssertionError as error:
        return " ".join(str(error).split())[:140]
    return ""


def answer(request: dict[str, Any]) -> Outcome:
    """Passed if every result of every sample is as torch's."""
    samples_of, name = samples_of_op if request["case"].startswith("op/") else samples_of_module, request["op"]
    count = left_out = 0
    for call, inputs in samples_of(name, DTYPES[request["dtype"]], request["samples"]):
        with torch.no_grad():
            expected = call(*[tensor.clone() for tensor in inputs])
            if name in TIES and len(expected) > 1:
                expected, call.process = expected[:1], lambda results, process=call.process: process(results)[0]
        try:
            actual = hlo2tx8.compile(call, args=[tensor.clone() for tensor in inputs])(*inputs)
        except Exception as error:
            if DATA_DEPENDENT.search(str(error)):
                left_out += 1
                continue
            return {"outcome": "failed", "cause": f"sample {count}: {cause_of(error)}", "samples": count}
        for number, (a, b) in enumerate(zip(actual, expected, strict=True)):
            if wrong := difference(a, b):
                return {"outcome": "failed", "cause": f"sample {count}, output {number}: {wrong}", "samples": count}
        count += 1
        torch.compiler.reset()
    cause = "" if count else "results' shapes, or Python's way, depend on what is computed" if left_out else "no sample"
    return {"outcome": "passed" if count else "skipped", "cause": cause, "samples": count, "left_out": left_out}


warnings.simplefilter("ignore")
SUITE = Suite("op|nn", requests, answer)
