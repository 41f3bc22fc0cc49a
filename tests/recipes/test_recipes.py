"""CONTRIBUTING.md is right: each recipe, followed word by word in a copy of the tree, passes its own checks.

And it is needed: if a step is left out, or the thing is not there at all, a check fails and names what is missing.
"""

from pathlib import Path

import pytest
from recipe import PAGE, Recipe, copy_tree, recipes, run

RECIPES = recipes(PAGE.read_text())
NAMES = {
    "An HLO operation": "stablehlo.cbrt",
    "An instruction": "CGRATensor_ArithOp_V_V_twice",
    "An emitter": "reverse",
    "A pass": "fold-double-reverse",
    "A chip": "fast_ddr.yaml",
}
"""What a failing check must name, with `_` for `-` and as a class too."""
STEPS = [(title, number) for title, recipe in RECIPES.items() for number in range(len(recipe.edits))]


def without(root: Path, recipe: Recipe) -> None:
    """Takes back what the tree has of the recipe already, where the page shows something that is there."""
    for edit in recipe.edits:
        if edit.is_done(root):
            edit.undone().apply(root)


def first_failure(recipe: Recipe, root: Path, name: str = "") -> str:
    """What the first command prints that fails, and names `name` if one is given; "" if none does."""
    for command in recipe.commands:
        result = run(command, root)
        output = result.stdout + result.stderr
        if result.returncode and squeezed(name) in squeezed(output):
            return output
    return ""


def squeezed(text: str) -> str:
    """Lower case without `-` and `_`."""
    return text.lower().replace("-", "").replace("_", "")


def test_every_recipe_is_tried():
    assert set(RECIPES) == set(NAMES)
    assert all(recipe.commands for recipe in RECIPES.values())


@pytest.mark.slow
@pytest.mark.parametrize("title", RECIPES)
def test_the_recipe_works(title: str, tmp_path: Path):
    root, recipe = copy_tree(tmp_path / "copy"), RECIPES[title]
    without(root, recipe)
    for edit in recipe.edits:
        edit.apply(root)
    assert first_failure(recipe, root) == ""


@pytest.mark.slow
@pytest.mark.parametrize(("title", "left_out"), STEPS)
def test_a_step_that_is_left_out_is_named(title: str, left_out: int, tmp_path: Path):
    root, recipe = copy_tree(tmp_path / "copy"), RECIPES[title]
    without(root, recipe)
    for number, edit in enumerate(recipe.edits):
        if number != left_out:
            edit.apply(root)
    assert first_failure(recipe, root, NAMES[title])
