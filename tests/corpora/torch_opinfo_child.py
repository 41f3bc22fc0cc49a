"""The child of torch_opinfo.py: samples of an entry exported, compiled, run on the emulator and compared with torch."""

# pyright: basic

import re
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
import torch.utils._pytree as pytree
from pool import Outcome, cause_of, serve
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db

import hlo2tx8

DATA_DEPENDENT = re.compile(r"depends on what is computed|DataDependent|DynamicOutputShape|UnbackedSymbol|made of what is computed")
"""Errors of samples that are left out."""
DTYPES = (torch.float32, torch.int64, torch.bool)


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


def samples_of_op(name: str, count: int) -> Iterator[tuple[Any, list[Any]]]:
    """Modules and their inputs."""
    op = ops()[name]
    for dtype in DTYPES:
        if dtype not in op.dtypes:
            continue
        torch.manual_seed(0)
        for sample in spread(list(op.sample_inputs("cpu", dtype)), count):
            call = Called(op.op, ((sample.input, *sample.args), sample.kwargs), sample.output_process_fn_grad)
            yield call, call.tensors


def samples_of_module(name: str, count: int) -> Iterator[tuple[Any, list[Any]]]:
    """The same of a module of torch.nn, in the mode for inference."""
    info = next(info for info in module_db if info.name == name)
    torch.manual_seed(0)
    samples = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=False)
    for sample in spread([s for s in samples if s.forward_input is not None], count):
        given = sample.constructor_input
        module = info.module_cls(*given.args, **given.kwargs).to(torch.float32).eval()
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
    kind, _, name = request["case"].partition("/")
    count = left_out = 0
    for call, inputs in (samples_of_op if kind == "op" else samples_of_module)(name, request["samples"]):
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


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    serve(answer)
