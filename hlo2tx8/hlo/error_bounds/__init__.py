"""How far a correct result may be from the reference's: the errors that the ops declare, carried through a module."""

from hlo2tx8.hlo.error_bounds.evaluator import evaluate_with_bounds

__all__ = ["evaluate_with_bounds"]
