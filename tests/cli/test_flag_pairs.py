"""Every flag acts, and so does each of two, or they are refused with a line that says why; `flag_pairs.py` tries all of them."""

import pytest

from hlo2tx8.tools.main import parser
from tests.cli.flag_pairs import ALWAYS, COMMANDS, pairs_of, try_flags

PART = 60
"""One of so many pairs is tried here."""


@pytest.mark.parametrize("command", COMMANDS)
def test_pairs_of_flags_act_or_are_refused(command: str):
    tries = list(pairs_of(command))
    alone = len(COMMANDS[command])
    wrong = [try_flags(command, flags) for flags in (*tries[:alone], *tries[alone::PART])]
    assert [found for found in wrong if found] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_flags_of_compiled_programs_act_or_are_refused(command: str):
    wrong = [try_flags(command, flags, "tiny.tx8x") for flags in pairs_of(command) if len(flags) == 1]
    assert [found for found in wrong if found] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_all_flags_are_tried(command: str):
    """Those that `--help` lists."""
    given = parser().parse_args([command, *ALWAYS.get(command, ()), "a.hlo"])
    tried = {name.lstrip("-") for flag in COMMANDS[command] for name in flag.names}
    assert {*vars(given)} - tried - {"function", "command", "given", "file", "files", "output", "infeed"} == {
        name for name in vars(given) if name in HIDDEN[command]
    }


UNSEEN = ("mode", "until", "explain", "timeout", "max_steps", "xla_dump_to", "xla_dump_hlo_pass_re", "xla_dump_emitter_re")
HIDDEN = {
    "run": (),
    "compile": ("timeout", "max_steps"),
    "profile": ("mode", "until", "explain", "timeout", "max_steps"),
    "report": ("mode", "until", "explain", "timeout", "max_steps"),
    "check": UNSEEN,
    "explain": UNSEEN,
    "bisect": (*(name for name in UNSEEN if name != "max_steps"), "different_random_seeds", "random_init_input_literals"),
}
"""What the functions under a command ask for and the command has no flag for."""
