"""How a Python function is called: pytrees of arguments and results, of which a program takes and gives the leaves.

    f(x, {"w": w, "unused": u}) -> {"y": y}        the program: (x, w) -> (y)

jax leaves out arguments that a function does not use; who calls what was compiled passes them as they would to the function.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from hlo2tx8.errors import InputError
from hlo2tx8.frontend import shim

LEAF, NOTHING = "leaf", "none"


@dataclass(frozen=True)
class Calling:
    """`arguments` is the tree of ((positional, ...), {keyword: ...}), `results` that of what the function returns, both jax's
    PyTreeDef; `kept` are the leaves of the arguments that the program takes, in its order."""

    arguments: Any
    results: Any
    kept: tuple[int, ...]

    def leaves(self, args: Sequence[object], kwargs: Mapping[str, object]) -> list[object]:
        """What the program takes of a call; InputError if the call has another tree than the function was compiled for."""
        leaves, tree = shim.pytrees().flatten((tuple(args), dict(kwargs)))
        if tree != self.arguments:
            raise InputError("E1004", f"takes {_call(self.arguments)}, got {_call(tree)}")
        return [leaves[number] for number in self.kept]

    def results_of(self, arrays: Sequence[object]) -> Any:
        """The program's results as the function returns them."""
        return shim.pytrees().unflatten(self.results, arrays)

    @cached_property
    def plain(self) -> dict[str, object] | None:
        """JSON of it; None where a tree has nodes other than tuples, lists, dicts with names as keys, and None."""
        trees = [_plain(shim.pytrees().unflatten(tree, range(tree.num_leaves))) for tree in (self.arguments, self.results)]
        return None if None in trees else {"arguments": trees[0], "results": trees[1], "kept": list(self.kept)}

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any], num_inputs: int, num_outputs: int) -> "Calling":
        """The inverse of `plain`; ValueError if it is no calling of a program with so many inputs and outputs."""
        arguments, results = (shim.pytrees().structure(_tree(plain[name])) for name in ("arguments", "results"))
        kept = tuple(plain["kept"])
        sound = all(isinstance(n, int) and 0 <= n < arguments.num_leaves for n in kept)
        if not sound or len(kept) != num_inputs or results.num_leaves != num_outputs:
            raise ValueError("the trees of arguments and results are not those of the program")
        return cls(arguments, results, kept)


def call_module(execute: Callable[..., Sequence[Any]], args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
    """What `execute` gives for an array per input: the only one, or all. InputError for an argument by name: a module has none."""
    if kwargs:
        raise InputError("E1004", f"a module takes no argument by name: {', '.join(kwargs)}")
    results = execute(*args)
    return results[0] if len(results) == 1 else results


def calling_of(source: object) -> Calling | None:
    """How the function of a jax `Lowered` or `Exported` is called; None for any other source, and where jax does not say."""
    found = shim.trees(source)
    return None if found is None else Calling(*found)


def _call(tree: Any) -> str:
    """A tree of arguments as a call is written: `(*, {'a': *}, k=*)`."""
    return call_text(*shim.pytrees().unflatten(tree, [Star()] * tree.num_leaves))


def call_text(args: Sequence[object], kwargs: Mapping[str, object]) -> str:
    """Arguments as a call is written."""
    named = [f"{name}={value!r}" for name, value in kwargs.items()]
    return f"({', '.join([*map(repr, args), *named])})"


class Star:
    """A leaf where only the tree counts."""

    def __repr__(self) -> str:
        return "*"


def _plain(tree: Any) -> object:
    """A tree whose leaves are numbers as JSON; None if a node has no such form."""
    if tree is None:
        return NOTHING
    if type(tree) is int:
        return LEAF
    if type(tree) in (tuple, list):
        children = [_plain(child) for child in tree]
        return None if None in children else [type(tree).__name__, *children]
    if type(tree) is dict:
        items: dict[Any, object] = {key: _plain(child) for key, child in cast(dict[Any, Any], tree).items()}
        return None if None in items.values() or not all(isinstance(key, str) for key in items) else items
    return None


def _tree(plain: Any) -> object:
    """The inverse of `_plain`, with 0 as leaves; ValueError if it is none."""
    if plain == LEAF:
        return 0
    if plain == NOTHING:
        return None
    if isinstance(plain, dict):
        return {key: _tree(child) for key, child in cast(dict[str, Any], plain).items()}
    if isinstance(plain, list) and plain and plain[0] in ("tuple", "list"):
        children = map(_tree, cast(list[Any], plain)[1:])
        return tuple(children) if plain[0] == "tuple" else list(children)
    raise ValueError(f"{plain!r} is no tree")
