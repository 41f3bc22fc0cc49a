"""Which flags a command takes together. A flag that would not act beside the others is refused, with a line that says why."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hlo2tx8.errors import InputError
from hlo2tx8.frontend.chip_folder import is_chip_folder
from hlo2tx8.options import Level
from hlo2tx8.tools.platforms import MODELS, platform_of
from hlo2tx8.tools.run_chips import counts_of
from hlo2tx8.tools.saved import is_saved

DRAWN = ("random_init_input_literals", "use_large_float_range", "different_random_seeds")
BOUNDS = ("abs_error_bound", "rel_error_bound")
LISTED = ("print_program", "report")
OF_PROGRAMS = ("trace", "check_values", *LISTED, "explain")
ON_TX8 = (
    "chip",
    "matmul_precision",
    "step_elements",
    "search",
    "search_cache",
    "verify",
    "reassociate",
    "keep",
    "xla_disable_all_hlo_passes",
)
DUMPS = ("xla_dump_to", "xla_dump_hlo_pass_re", "xla_dump_emitter_re")
READING = ("input_format", "fill_elided_constants")
COMPILING = (*ON_TX8, *DUMPS, "run_test_hlo_passes", "explain")
RESULTS = ("print_literals", "output_literals_file")
CHIPS = ("chips", "replicas", "partitions")
EACH = ("compare_each", "dump_results", "filter")
RUNNING = (
    *("platform", "level", "mode", "iterations", "timeout", "max_steps", "isolate_instructions", "reference_platform"),
    *("run_reference_hlo_passes", "trace", "check_values", *RESULTS, *EACH, *BOUNDS, *DRAWN, "input_literals_file"),
    *(*CHIPS, "infeed"),
)

Rule = tuple[Iterable[str], bool, str]
"""Flags, whether they do not act, and the rest of the sentence that begins with one of them."""


def check_flags(values: Any, rules: Iterable[Rule]) -> None:
    """InputError if one of the flags that are given does not act, by the rules of the command and those of all commands."""
    for names, is_idle, why in (*rules, *_of_all(values)):
        for name in names if is_idle else ():
            if name in values.given:
                raise InputError("E1004", f"--{name} {why}")


def rules_of_run(values: Any) -> Iterator[Rule]:
    """Which of `run`'s flags do not act beside the others."""
    test, reference = platform_of(values.platform), values.reference_platform and platform_of(values.reference_platform)
    level, has_inputs = values.level, values.input_literals_file is not None
    is_on_chip = test == "tx8" and level is Level.PROGRAM
    each = next((name for name in EACH[:2] if name in values.given), "")
    yield (*RUNNING, *LISTED), values.until is not None, "is of runs, and --until prints the module at a level and stops"
    yield from _before(values.until, "--until")
    yield ("level", *OF_PROGRAMS, "run_test_hlo_passes"), test != "tx8", f"is of tx8, and --platform is {test}"
    yield (*ON_TX8, *DUMPS), not {"tx8", *MODELS} & {test, reference}, "is of tx8, and neither platform is that"
    models = {test, reference} & {*MODELS}
    yield ("max_steps",), bool(models), "counts turns of loops, and main.c does not"
    is_given = bool(models) and any(is_chip_folder(Path(file)) for file in (*values.files, *values.input_module))
    yield (*DRAWN, "input_literals_file"), is_given, "says what inputs are, and main.c of a folder reads the folder's"
    yield (*ON_TX8, *DUMPS), is_given and "tx8" not in (test, reference), "is of compiling, and the folder has main.c"
    yield OF_PROGRAMS, not is_on_chip, "is of programs, and --level runs the IR"
    yield ("mode",), not is_on_chip and reference != "tx8", "is how a program runs on tx8, and none does"
    if reference != "tx8":
        yield from _before(level, "--level")
    yield ("max_steps",), "cpu" in (test, reference), "counts turns of loops, and XLA:CPU does not say how many there are"
    yield BOUNDS, not reference, "is how much results may be off, and there is no reference platform"
    yield ("run_reference_hlo_passes",), reference != "tx8", f"is of tx8, and --reference_platform is {reference or 'none'}"
    yield (*EACH, *RESULTS), level is None, "is of one run, and --level=all runs every level"
    yield ("reference_platform",), level is None and reference != "interpreter", "is the interpreter for --level=all"
    yield ("filter",), not each, "says which instructions --compare_each and --dump_results take"
    yield ("reference_platform",), bool(each) and reference != "interpreter", f"is the interpreter for --{each}"
    of_the_whole = f"is of the module's results, and --{each} takes those of its instructions"
    yield (*RESULTS, *OF_PROGRAMS, *BOUNDS), bool(each), of_the_whole
    of_parts = "is of whole modules, and --isolate_instructions runs parts"
    yield (*CHIPS, "infeed"), values.isolate_instructions, "is of whole modules, and --isolate_instructions runs parts"
    yield CHIPS, _is_any_saved(values), "is for modules, and a .tx8x is the program of one chip"
    of_chips = values.chips > 0 or any(counts_of(values))
    yield ("explain",), of_chips, "is of the program of one chip"
    yield ("reference_platform",), of_chips and reference == "tx8", "is the interpreter or cpu for several chips"
    yield ("trace", "input_literals_file", "filter"), values.isolate_instructions, of_parts
    yield DRAWN, has_inputs, "says how inputs are drawn, and --input_literals_file gives them"
    yield DRAWN[1:], not values.random_init_input_literals, "says how inputs are drawn, and they are zeros"
    if is_on_chip and not each and not values.isolate_instructions and values.until is None:
        yield COMPILING, _is_any_saved(values), "is for modules, and a .tx8x is compiled already"


def rules_of_compile(values: Any) -> Iterator[Rule]:
    """The same of `compile`."""
    is_above = values.until not in (None, Level.PROGRAM)
    is_emitting = values.emit is not None
    yield ("until", *LISTED, "explain", "time", "mode"), is_emitting, "is of programs, and --emit writes a module"
    yield ("platform",), values.emit != "chip", "compiles the main program of a folder, which --emit=chip writes"
    yield ("output", *LISTED), is_above, "is of programs, and --until prints the module at a level and stops"
    yield from _before(values.until, "--until")
    yield CHIPS, is_above or _is_any_saved(values), "is for modules that are compiled, down to programs"
    yield CHIPS, values.output is not None and not is_emitting, "is how many programs there are, and -o FILE saves one"
    yield ("time", "explain"), values.chips > 0 or any(counts_of(values)), "is of the program of one chip"
    yield ("mode",), values.output is None, "is how the program runs, and none is saved: -o FILE does"
    yield from rules_of_check(values)


def rules_of_check(values: Any) -> Iterator[Rule]:
    """The same of `check`."""
    yield CHIPS, _is_any_saved(values), "is for modules, and a .tx8x is the program of one chip"
    yield ("input_literals_file",), _is_any_saved(values), "binds shapes of modules, and a .tx8x is compiled already"


def rules_of_explain(values: Any) -> Iterator[Rule]:
    """The same of `explain`."""
    yield from rules_of_check(values)


def rules_of_profile(values: Any) -> Iterator[Rule]:
    """The same of `profile`."""
    yield CHIPS, _is_any_saved(values), "is for modules, and a .tx8x is the program of one chip"
    yield ("top",), values.format != "text", "is of tables, and JSON has all rows"
    yield (*COMPILING, "input_literals_file"), _is_any_saved(values), "is for modules, and a .tx8x is compiled already"


def rules_of_report(values: Any) -> Iterator[Rule]:
    """The same of `report`."""
    are_saved = _is_any_saved(values) and (values.against is None or is_saved(values.against))
    yield CHIPS, _is_any_saved(values), "is for modules, and a .tx8x is the program of one chip"
    yield CHIPS, values.against is not None, "is of one module, and --against compares programs of one chip"
    yield (*COMPILING, "input_literals_file"), are_saved, "is for modules, and a .tx8x is compiled already"


def rules_of_bisect(values: Any) -> Iterator[Rule]:
    """The same of `bisect`."""
    has_inputs = values.input_literals_file is not None
    yield ("iterations", *DRAWN), has_inputs, "is of inputs that are drawn, and --input_literals_file gives them"


def _of_all(values: Any) -> Iterator[Rule]:
    yield READING, _is_any_saved(values), "says how a module is read, and a .tx8x is compiled already"
    yield DUMPS[1:], values.xla_dump_to is None, "says what is dumped, and --xla_dump_to=DIR says where"
    yield ("search_cache",), values.search != "full", "is where --search=full keeps what it finds"


def _before(level: Level | None, flag: str) -> Iterator[Rule]:
    """What comes into play after a level, which a flag names."""
    if level is None:
        return
    for names, first in ((("search", "search_cache"), Level.FUSED), (("step_elements",), Level.LOOPS)):
        yield names, level < first, f"acts from level {first.name.lower()} on, and {flag} is {level.name.lower()}"


def _is_any_saved(values: Any) -> bool:
    files = [*values.files, *values.input_module] if hasattr(values, "files") else [values.file]
    return any(map(is_saved, files))
