"""Tiles that a source gives a call: which they are, and what is refused."""

import pytest

from hlo2tx8.errors import InputError
from hlo2tx8.hlo.placement import Rectangle
from hlo2tx8.options import Options
from hlo2tx8.runtime.compile import compile_source

CALLED = """HloModule called
twice {{
  x = f32[8] parameter(0)
  ROOT y = f32[8] add(x, x)
}}
ENTRY main {{
  x = f32[8] parameter(0)
  ROOT y = f32[8] call(x), to_apply=twice, frontend_attributes={{tiles="{}"}}
}}
"""


def test_tiles_are_counted_row_by_row():
    assert Rectangle(1, 2, 2, 2).tiles((4, 4)) == (6, 7, 10, 11)
    assert Rectangle(0, 6, 2, 2).tiles((2, 8)) == (6, 7, 14, 15)


@pytest.mark.parametrize("text", ["", "1,2", "0,0,5,1", "3,3,1,2", "0,0,0,1", "-1,0,1,1", "0,0,1,x", "0,0,1,1,1"])
def test_what_are_no_tiles_is_refused(text: str):
    with pytest.raises(InputError, match=r"are none of a mesh of 4 x 4"):
        compile_source(CALLED.format(text), Options())


def test_all_tiles_are_what_runs_without_them():
    every = CALLED.format("0,0,4,4")
    none = every.replace(', frontend_attributes={tiles="0,0,4,4"}', "")
    assert compile_source(every, Options()).report.cycles == compile_source(none, Options()).report.cycles
