"""The command `explain`: its flags, and the programs that they ask about."""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hlo2tx8.tools.combinations import check_flags, rules_of_explain
from hlo2tx8.tools.flags import add_compiler_flags, add_switch, given_inputs, load_given, options_of, whole
from hlo2tx8.tools.run_chips import add_flags, chips_module

if TYPE_CHECKING:
    from hlo2tx8.runtime.executable import Executable
    from hlo2tx8.tools.explain.book import Book

SLOWEST = 5


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The flags of `explain`."""
    parser.set_defaults(function=explain_file)
    parser.add_argument("file", help=".hlo, .mlir, .mlirbc or .pb module, .tx8x program, - for stdin")
    group = parser.add_argument_group("questions")
    name = "an HLO instruction, a fusion or kernel of the dumps, or a line model.py:12"
    group.add_argument("--why", action="append", default=[], metavar="NAME", help=f"why this is fused and grouped as it is: {name}")
    group.add_argument("--why_not_fused", "--why-not-fused", nargs=2, metavar=("A", "B"), help="which rule keeps two of them apart")
    longest = f"what bounds the N kernels that take longest, 0 for all; {SLOWEST} if nothing is asked"
    group.add_argument("--slowest", type=whole(0), metavar="N", help=longest)
    add_switch(group, "memory", "what is in DDR, how long, and in the scratchpad at its fullest")
    add_switch(group, "coarse", "which coarse ops (softmax, gelu, norms, attention) are named or recognised")
    add_flags(parser)
    add_compiler_flags(parser)


def explain_file(args: Any) -> int:
    """Print the answers; 0, or an Hlo2tx8Error is raised."""
    check_flags(args, rules_of_explain(args))
    if not (args.why or args.why_not_fused or args.slowest is not None or args.memory or args.coarse):
        args.slowest = SLOWEST
    for line in _answers(args):
        print(line)
    return 0


def _answers(args: Any) -> Iterator[str]:
    from hlo2tx8.tools.explain import costs, fusions
    from hlo2tx8.tools.explain.book import Book, find_in

    if args.coarse:
        from hlo2tx8.tools.explain.coarse import coarse

        yield from coarse(load_given(args, args.file))
    if not (args.why or args.why_not_fused or args.slowest is not None or args.memory):
        return
    books = [Book(executable, _aliases(args)) for executable in _executables(args)]
    for name in args.why:
        for book, subject in find_in(books, name):
            yield from _headed(books, book, fusions.why(book, subject))
    if args.why_not_fused:
        first, second = (find_in(books, name) for name in args.why_not_fused)
        pairs = [(book, a, b) for book, a in first for other, b in second if book is other]
        for book, a, b in pairs:
            yield from _headed(books, book, fusions.why_not(book, a, b))
        if not pairs:
            yield f"{args.why_not_fused[0]} and {args.why_not_fused[1]} are in programs between which chips exchange data."
    for book in books if args.slowest is not None else ():
        yield from _headed(books, book, costs.slowest(book.executable, args.slowest or 0))
    for book in books if args.memory else ():
        yield from _headed(books, book, costs.memory(book.executable))


def _headed(books: "list[Book]", book: "Book", lines: Iterator[str]) -> Iterator[str]:
    """Lines about one of several programs, under its number."""
    if len(books) > 1:
        yield f"part {books.index(book)}:"
    yield from lines


def _executables(args: Any) -> "list[Executable]":
    """The program of a module, or the programs of its parts on several chips."""
    from hlo2tx8.runtime.compile import compile_module, compile_source
    from hlo2tx8.runtime.progress_bar import shown
    from hlo2tx8.spmd.chips import compile_chips_module
    from hlo2tx8.tools.saved import is_saved

    options = replace(options_of(args), explain=True)
    module = None if is_saved(args.file) else chips_module(args.file, options, args)
    with shown() as watch:
        if module is not None:
            return [executable for executable, _ in compile_chips_module(module, options, watch).local.programs]
        if is_saved(args.file):
            return [compile_module(partial(load_given, args, args.file), options, watch)]
        return [compile_source(args.file, options, args=given_inputs(args), format=args.input_format, watch=watch)]


def _aliases(args: Any) -> dict[str, tuple[str, str]]:
    """What HLO text calls instructions whose metadata say where they are from."""
    from hlo2tx8.tools.explain.book import aliases_in

    path = Path(args.file)
    return aliases_in(path.read_text(errors="replace")) if path.suffix in (".hlo", ".txt") and path.is_file() else {}
