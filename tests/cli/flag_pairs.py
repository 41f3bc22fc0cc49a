"""Pairs of flags of a command: each flag of a pair acts, or the pair is refused with a line that names one of them.

`make flag-pairs` tries all pairs of all commands; `test_flag_pairs.py` each flag alone and a part of the pairs.
What a flag does is seen in what is printed and written, or in what the functions under the commands are given.
"""

import contextlib
import io
import itertools
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import hlo2tx8
import hlo2tx8.frontend
from hlo2tx8.compiler import driver
from hlo2tx8.device.emulator import Emulator
from hlo2tx8.errors import Hlo2tx8Error
from hlo2tx8.options import Level, Options
from hlo2tx8.runtime import levels, tensors
from hlo2tx8.runtime.compile import compile_module
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.spmd import chips
from hlo2tx8.tools import arguments, before_run, each_instruction, platforms, reference, run_chips
from hlo2tx8.tools.main import main
from hlo2tx8.vendor import grouped
from hlo2tx8.vendor import platforms as main_programs

CHIP = Path(driver.__file__).parents[1] / "device" / "chip.yaml"
MODULE = """HloModule tiny
ENTRY main {
  a = f32[6] parameter(0)
  e = f32[6] exponential(a)
  ROOT r = f32[6] add(e, a)
}
"""


@dataclass
class Seen:
    """What a command did: its exit code, what it printed, the folder it wrote into, and the arguments of functions under it."""

    folder: Path
    code: int = 0
    out: str = ""
    err: str = ""
    calls: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def called(self, name: str, **values: Any) -> bool:
        """Was the function called, with these among its arguments?"""
        return any(name == own and values.items() <= given.items() for own, given in self.calls)

    def lowered(self, **values: Any) -> bool:
        """Was a module lowered with options that have these values?"""
        found = (given["options"] for name, given in self.calls if name == "lower_stages")
        return any(all(getattr(options, key) == value for key, value in values.items()) for options in found)

    def wrote(self, pattern: str) -> bool:
        """Was a file of such a name written that is not empty?"""
        return any(path.stat().st_size for path in self.folder.glob(pattern))

    @property
    def refusal(self) -> str:
        """The one line that says why nothing was done, "" if something was, or if there are more."""
        lines = [line for line in self.err.splitlines() if not re.match(r"  hint: |\d+/\d+ runs failed", line)]
        return lines[0] if self.code and len(lines) == 1 and lines[0].startswith("error E1004: ") else ""


@dataclass(frozen=True)
class Flag:
    """A flag with a value, `{}` for the folder, and others that it needs; and how to see that it acts."""

    text: str
    acts: Callable[[Seen], bool]

    @property
    def names(self) -> list[str]:
        """Its own, and those of the flags that it needs."""
        return re.findall(r"(?:^| )(-+\w+)", self.text)


def _written(name: str) -> Callable[[Seen], bool]:
    return lambda seen: seen.wrote(name)


def _printed(text: str) -> Callable[[Seen], bool]:
    return lambda seen: text in seen.out


def _lowered(**values: Any) -> Callable[[Seen], bool]:
    return lambda seen: seen.lowered(**values)


def _called(name: str, **values: Any) -> Callable[[Seen], bool]:
    return lambda seen: seen.called(name, **values)


SHARED = (
    Flag("--input_format=hlo", _called("load", format="hlo")),
    Flag("--input_literals_file={}/given.safetensors", lambda seen: seen.called("read_tensors")),
    Flag("--fill_elided_constants=zeros", _called("load", filling="zeros")),
    Flag("--chip={}/chip.yaml", lambda seen: seen.lowered(chip=seen.folder / "chip.yaml")),
    Flag("--matmul_precision=high", _lowered(matmul_precision="high")),
    Flag("--step_elements=64", _lowered(step_elements=64)),
    Flag("--search=full --search_cache=none", _lowered(search="full")),
    Flag("--search_cache={}/plans --search=full", lambda seen: seen.lowered(search_cache=seen.folder / "plans")),
    Flag("--xla_disable_all_hlo_passes", _lowered(hlo_passes=False)),
    Flag("--reassociate=false", _lowered(reassociate=False)),
    Flag("--keep=softmax", _lowered(keep="softmax")),
    Flag("--verify=1", _lowered(verify=True)),
    Flag("--traceback=true", lambda seen: True),
)
DUMPS = (
    Flag("--xla_dump_to={}/dump", _written("dump/*")),
    Flag("--xla_dump_hlo_pass_re=inline-calls --xla_dump_to={}/dump", _written("dump/*inline-calls*")),
    Flag("--xla_dump_emitter_re=loop --xla_dump_to={}/dump", _written("dump/*passes.log")),
)
PRINTED = (
    Flag("--until=flat", _printed("builtin.module")),
    Flag("--until=program", _printed("KC_halt")),
    Flag("--explain", _printed("** Decisions")),
    Flag("--print_program", _printed("** Tile program")),
    Flag("--report", _printed("** Modelled cost")),
)
RUN = (
    Flag("--input_module={}/tiny.hlo", lambda seen: len({given["number"] for name, given in seen.calls if name == "load"}) > 0),
    Flag("--mode=strict", _called("emulated", mode="strict")),
    Flag("--platform=interpreter", _called("execute", platform="interpreter", is_test=True)),
    Flag("--platform=cpu", _called("execute", platform="cpu", is_test=True)),
    Flag("--platform=Cmodel", _called("execute", platform="cmodel", is_test=True)),
    Flag("--reference_platform=tx8", _called("execute", platform="tx8", is_test=False)),
    Flag("--reference_platform=", lambda seen: "close enough" not in seen.err),
    Flag("--level=flat", _called("run_lowered", level=Level.FLAT)),
    Flag("--level=all", lambda seen: all(seen.called("emulated", mode=mode) for mode in ("fast", "strict", "definition"))),
    Flag("--abs_error_bound=1", _called("within", absolute=1.0)),
    Flag("--rel_error_bound=1", _called("within", relative=1.0)),
    Flag("--iterations=2", lambda seen: "=== Iteration 2" in seen.err),
    Flag("--output_literals_file={}/out.safetensors", _written("out.safetensors")),
    Flag("--trace={}/trace.json", _written("trace.json")),
    Flag("--timeout=60", _called("setitimer", seconds=60.0)),
    Flag("--max_steps=1000", lambda seen: any(seen.called(name, max_steps=1000) for name in ("emulated", "execute"))),
    Flag("--print_literals", lambda seen: bool(re.search(r"\*\* (Argument |input)0", seen.out))),
    Flag("--random_init_input_literals=false", _called("zeros")),
    Flag("--use_large_float_range", _called("random_arguments", large_floats=True)),
    Flag("--different_random_seeds", _called("seeded", different_seeds=True)),
    Flag("--isolate_instructions", _printed("alone")),
    Flag("--compare_each", _printed("worst ulp")),
    Flag("--check_values", _called("check_values")),
    Flag("--dump_results={}/values", _written("values/*.npy")),
    Flag("--filter=exp --compare_each", lambda seen: "worst ulp" in seen.out and "add" not in seen.out.partition("worst ulp")[2]),
    Flag("--run_test_hlo_passes=0", _lowered(hlo_passes=False)),
    Flag("--run_reference_hlo_passes=0 --reference_platform=tx8", _lowered(hlo_passes=False)),
)
CHIPS = (
    Flag("--chips=2", lambda seen: any(seen.called("compile_chips", **{kind: 2}) for kind in ("replicas", "partitions"))),
    Flag("--replicas=3", _called("compile_chips", replicas=3)),
    Flag("--partitions=2", _called("compile_chips", partitions=2)),
)
COMMANDS: Mapping[str, tuple[Flag, ...]] = {
    "run": (*SHARED, *DUMPS, *PRINTED, *CHIPS, *RUN),
    "compile": (
        *(*SHARED, *DUMPS, *PRINTED, *CHIPS),
        Flag("-o {}/out.tx8x", _written("out.tx8x")),
        Flag("--emit=tx8be", _printed("tx8be.Output")),
        Flag("--emit=chip -o {}/out", _written("out/*.json")),
        Flag("--emit=main.c", lambda seen: "static uint64_t op_" in seen.out or seen.wrote("out.tx8x")),
        Flag("--platform=Cmodel --emit=chip -o {}/out", _called("build")),
        Flag("--time", _printed(" ms  ")),
        Flag("--mode=strict -o {}/out.tx8x", lambda seen: Executable.load(seen.folder / "out.tx8x").options.mode == "strict"),
    ),
    "profile": (
        *(*SHARED, *DUMPS, *CHIPS),
        Flag("--format=json", _printed('"fusions"')),
        Flag("--top=1", _printed("and 1 more")),
    ),
    "explain": (
        *(*SHARED, *CHIPS),
        Flag("--why=r", _printed("instructions")),
        Flag("--why_not_fused e r", _printed("are fused")),
        Flag("--slowest=1", _printed("bounds it")),
        Flag("--memory", _printed("SPM: ")),
        Flag("--coarse", _printed("No coarse op")),
    ),
    "report": (
        *SHARED,
        *DUMPS,
        *CHIPS,
        Flag("--against={}/tiny.hlo", lambda seen: 'id="facts1"' in (seen.folder / "out.html").read_text()),
    ),
    "check": (*SHARED, *CHIPS, Flag("--format=json", _printed('"ops"'))),
    "bisect": (
        *SHARED,
        Flag("--iterations=2", _called("seeded", iteration=1)),
        Flag("--use_large_float_range", _called("random_arguments", large_floats=True)),
        Flag("--max_steps=1000", _called("emulated", max_steps=1000)),
        Flag("--write={}/small.hlo", lambda seen: "nothing differs" in seen.out),
    ),
}
"""The flags of each command. Those of `opt` are xDSL's own."""
ALWAYS = {"report": ("-o", "{}/out.html")}
"""What a command does not do without."""


def pairs_of(command: str) -> Iterator[tuple[Flag, ...]]:
    """Each flag alone, then all pairs of two flags."""
    flags = COMMANDS[command]
    yield from ((flag,) for flag in flags)
    yield from ((a, b) for a, b in itertools.combinations(flags, 2) if not {*a.names} & {*b.names})


def try_flags(command: str, flags: Sequence[Flag], file: str = "tiny.hlo") -> str:
    """What is wrong with a command that has these flags, "" if all act or one is refused."""
    with tempfile.TemporaryDirectory(prefix="hlo2tx8-") as name:
        seen = Seen(Path(name))
        (seen.folder / "tiny.hlo").write_text(MODULE)
        shutil.copy(CHIP, seen.folder / "chip.yaml")
        tensors.write_tensors(seen.folder / "given.safetensors", {"input0": np.ones(6, np.float32)})
        if file.endswith(".tx8x"):
            (seen.folder / file).write_bytes(_compiled())
        texts = list(dict.fromkeys(word.replace("{}", name) for flag in flags for word in flag.text.split(" ")))
        with contextlib.ExitStack() as stack:
            for each in _spies(seen):
                stack.enter_context(each)
            _quietly(
                [command, *(word.replace("{}", name) for word in ALWAYS.get(command, ())), *texts, str(seen.folder / file)], seen
            )
        what = f"hlo2tx8 {command} {' '.join(texts)} {file}"
        if seen.refusal:
            is_named = any(word.partition("=")[0] in seen.refusal for word in texts)
            return "" if is_named else f"{what}: no flag is named: {seen.refusal}"
        if seen.code or "Traceback" in seen.err:
            return f"{what}: exit code {seen.code}: {seen.err}"
        idle = [flag.text for flag in flags if not flag.acts(seen)]
        return f"{what}: {', '.join(idle)} does not act" if idle else ""


@cache
def _compiled() -> bytes:
    with tempfile.TemporaryDirectory(prefix="hlo2tx8-") as name:
        hlo2tx8.compile(MODULE).save(path := Path(name) / "tiny.tx8x")
        return path.read_bytes()


def _quietly(argv: Sequence[str], seen: Seen) -> None:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            seen.code = main(argv)
        except SystemExit as end:
            seen.code = int(str(end.code))
        except Hlo2tx8Error as error:  # which --traceback shows
            seen.code = 1
            print(error, file=err)
    seen.out, seen.err = out.getvalue(), err.getvalue()


def _spies(seen: Seen) -> Iterator[Any]:
    """Patches that note the calls of functions, and go on with them."""

    def noting(target: Any, attribute: str, name: str, note: Callable[..., Mapping[str, Any]]) -> Any:
        original = getattr(target, attribute)

        def noted(*args: Any, **kwargs: Any) -> Any:
            seen.calls.append((name, note(*args, **kwargs)))
            return original(*args, **kwargs)

        return patch.object(target, attribute, noted)

    def execute(platform: str, source: Any, arrays: Any, options: Options, *rest: Any) -> Any:
        number = sum(name == "execute" for name, _ in seen.calls)
        seen.calls.append(("execute", {"platform": platform, "is_test": number % 2 == 0, "max_steps": options.max_steps}))
        if platform == "cmodel":  # the program is compiled, and its main.c is not
            compile_module(source.load, options)
        return run("interpreter" if platform in ("cpu", "cmodel") else platform, source, arrays, options, *rest)

    def build(folder: Path, _: Any) -> Path:
        seen.calls.append(("build", {}))
        return folder

    counts: Callable[..., Any] = lambda module, *_, **__: dict(zip(("replicas", "partitions"), module.counts, strict=True))
    yield noting(chips, "compile_chips_module", "compile_chips", counts)
    of_vendor: Callable[..., Any] = lambda load, options, counts, _: dict(zip(("replicas", "partitions"), counts, strict=True))
    yield noting(grouped, "grouped_module", "compile_chips", of_vendor)
    yield patch.object(main_programs, "build", build)
    yield patch.object(main_programs, "link_flags", lambda _: [])
    run = platforms.execute
    yield patch.object(platforms, "execute", execute)
    yield patch.object(each_instruction, "execute", execute)
    yield noting(driver, "lower_stages", "lower_stages", lambda module, options, *_, **__: {"options": options})
    loaded = itertools.count()
    load: Callable[..., Any] = lambda source, **given: given | {"number": next(loaded)}
    yield noting(hlo2tx8.frontend, "load", "load", load)
    yield noting(Emulator, "_run", "emulated", lambda self, *_, **__: {"mode": self.mode, "max_steps": self.max_steps})
    yield noting(Emulator, "check_values", "check_values", lambda *_: {})
    yield noting(levels, "run_lowered", "run_lowered", lambda module, level, *_: {"level": level})
    yield noting(tensors, "read_tensors", "read_tensors", lambda *_: {})
    for module in (arguments, run_chips):
        yield noting(module, "zeros", "zeros", lambda *_: {})
        yield noting(module, "random_arguments", "random_arguments", lambda *_, large_floats: {"large_floats": large_floats})
    seeded: Callable[..., Any] = lambda iteration, different_seeds: {"iteration": iteration, "different_seeds": different_seeds}
    yield noting(arguments, "seeded", "seeded", seeded)
    yield noting(run_chips, "seeded", "seeded", seeded)
    yield noting(run_chips, "named", "within", lambda _, absolute, relative: {"absolute": absolute, "relative": relative})
    yield noting(before_run.signal, "setitimer", "setitimer", lambda which, seconds: {"seconds": seconds})
    within = reference.Reference.within
    noted: Callable[..., Any] = lambda e, a, r: (seen.calls.append(("within", {"absolute": a, "relative": r})), within(e, a, r))[1]
    yield patch.object(reference.Reference, "within", staticmethod(noted))


def every_pair() -> int:
    """Try all pairs of all commands on a module and on a compiled program; how many are wrong."""
    wrong = 0
    for command, file in itertools.product(COMMANDS, ("tiny.hlo", "tiny.tx8x")):
        for flags in pairs_of(command):
            if found := try_flags(command, flags, file):
                print(found, flush=True)
                wrong += 1
    return wrong


if __name__ == "__main__":
    sys.exit(min(every_pair(), 1))
