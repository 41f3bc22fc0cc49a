"""The child of xla_emitters.py: one fusion compiled, run on the emulator and compared with XLA:CPU."""

import re
from typing import Any

from pool import Outcome, serve

from hlo2tx8.compiler.driver import load_source
from hlo2tx8.device.chip import load_chip
from hlo2tx8.errors import CapacityError, CompileError, OracleError
from hlo2tx8.frontend import to_mlir_text
from hlo2tx8.hlo.signature import signature_of
from hlo2tx8.options import Options
from hlo2tx8.runtime.compile import compile_module
from hlo2tx8.spmd.chips import compile_chips_module
from hlo2tx8.spmd.chips_module import ChipsModule, module_for_chips
from hlo2tx8.spmd.reference import expected_of
from hlo2tx8.tools.arguments import random_arguments, seeded
from hlo2tx8.tools.compare import compare
from hlo2tx8.tools.reference import Reference
from hlo2tx8.tools.xla_cpu import CpuServer

_HEADER = re.compile(r"^\s*(ENTRY )?(%?[\w.\-]+)\s*(?:\([^{]*\)\s*->[^{]*)?\{", re.MULTILINE)
_PARAMETER = re.compile(r"%?[\w.\-]+\s*=\s*(.*?)\s*parameter\((\d+)\)")
_ROOT = re.compile(r"ROOT\s+%?[\w.\-]+\s*=\s*(\((?:[^()]|\([^()]*\))*\)|\S+(?: \S+)*?)\s+[\w\-]+\(")
_EMITTER = re.compile(r": (\w+) emitter, hero kind (\w+)")
_SPACES = re.compile(r",\s+(?=\d)")


def as_fusion(text: str) -> str:
    """The module; a computation that is no fusion yet becomes the only fusion of a new entry."""
    text = re.sub(r"^\s*(?://|#).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"/\*.*?\*/", "", text)
    if not re.search(r"^HloModule", text, re.MULTILINE):
        text = "HloModule case\n" + text
    if re.search(r"\bfusion\(", text):
        return text
    headers = list(_HEADER.finditer(text))
    entry = next((header for header in headers if header[1]), headers[-1])
    body = text[entry.end() : re.compile(r"^\s*\}", re.MULTILINE).search(text, entry.end()).start()]
    parameters = sorted((int(number), _SPACES.sub(",", type_)) for type_, number in _PARAMETER.findall(body))
    root = _ROOT.search(body) or _ROOT.search(re.sub(r"^(?=.*\Z)", "ROOT ", body.strip(), count=1, flags=re.MULTILINE))
    assert root is not None, "no root"
    name = entry[2].lstrip("%")
    inner = "fused_main" if name == "main" else name
    lines = [f"  p{number} = {type_} parameter({number})" for number, type_ in parameters]
    operands = ", ".join(f"p{number}" for number, _ in parameters)
    result = _SPACES.sub(",", root[1].replace("\n", " "))
    lines.append(f"  ROOT result = {result} fusion({operands}), kind=kLoop, calls={inner}")
    fused = text[: entry.start()] + "\n" + text[entry.start() :].lstrip().removeprefix("ENTRY ")
    if name == "main":
        fused = re.sub(r"(?m)^%?main\b", inner, fused)
    entry_text = "\nENTRY main {\n" + "\n".join(lines) + "\n}\n"
    return re.sub(r"^HloModule.*$", "HloModule case", fused, flags=re.MULTILINE) + entry_text


CPU = CpuServer()


def answer_chips(module: ChipsModule) -> Outcome:
    """A case for several chips, against the evaluator: XLA:CPU does not run collective ops in fusions."""
    local = module.load()
    seeds = [seeded(chip, different_seeds=False) for chip in range(module.num_chips)]
    inputs = [random_arguments(local, module.signature, seed) for seed in seeds]
    results, expected = compile_chips_module(module, Options()).execute_all(inputs), expected_of(module, inputs, None)
    for actual, wanted, limits in zip(results, expected.results, expected.limits, strict=True):
        if wrong := compare(actual, wanted, limits):
            return {"outcome": "failed", "cause": f"wrong answer: {wrong[0].line} (evaluator)"}
    return {"outcome": "passed", "cause": "", "reference": "evaluator"}


def answer(request: dict[str, Any]) -> Outcome:
    """Compile, run and judge one case; the reference is the evaluator where XLA:CPU has no answer."""
    text = as_fusion(request["text"]) if request["is_fusion"] else request["text"]

    def load() -> Any:
        return load_source(text, format="hlo")

    chips = module_for_chips(text, Options(), format="hlo")
    if chips is not None:
        return answer_chips(chips)
    module = load()
    signature = signature_of(module)
    try:
        signature.check_capacity(load_chip().ddr_bytes)
    except CapacityError:
        return {"outcome": "skipped", "cause": "arrays larger than the chip's memory"}
    arguments = random_arguments(module, signature, seeded(0, different_seeds=False))
    executable = compile_module(load, Options(explain=True))
    emitters = [
        " of hero ".join(_EMITTER.search(note).groups()) for note in executable.explanation if " emitter, hero kind" in note
    ]
    found = executable.execute(*arguments)
    try:
        expected = Reference.of_cpu(module, arguments, CPU.run(to_mlir_text(module), arguments))
        reference = "XLA:CPU"
    except (OracleError, CompileError):
        expected, reference = Reference.of(module, arguments), "evaluator"
    wrong = expected.mismatches(found)
    if wrong:
        return {
            "outcome": "failed",
            "cause": f"wrong answer: {wrong[0].line} ({reference})",
            "emitters": emitters,
        }
    return {"outcome": "passed", "cause": "", "emitters": emitters, "reference": reference}


if __name__ == "__main__":
    serve(answer)
