"""Indexing maps: how indices of one tensor follow from indices of another. Pure integer mathematics."""

from hlo2tx8.indexing.expr import Add, Const, Dim, Expr, FloorDiv, Interval, Mod, Mul, Sym, split_terms
from hlo2tx8.indexing.indexing_map import (
    Constraint,
    IndexingMap,
    Variable,
    delinearize,
    evaluate_expr,
    linearize,
)
from hlo2tx8.indexing.simplify import Simplifier, simplify_expr

__all__ = [
    "Add",
    "Const",
    "Constraint",
    "Dim",
    "Expr",
    "FloorDiv",
    "IndexingMap",
    "Interval",
    "Mod",
    "Mul",
    "Simplifier",
    "Sym",
    "Variable",
    "delinearize",
    "evaluate_expr",
    "linearize",
    "simplify_expr",
    "split_terms",
]
