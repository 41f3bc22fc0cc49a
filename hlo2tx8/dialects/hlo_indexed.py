"""Ops of dialect `hlo` that read or write at indices known only at run time: dynamic slices, gathers and scatters become these.

%r = "hlo.read_at"(%x, %i) <{map = #map<(d0, d1) -> (d0, d1)>, index_maps = [#map<(d0, d1) -> ()>], dims = [0], rooms = [8]}>
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase

from hlo2tx8.dialects.hlo_form import HloForm, declare
from hlo2tx8.dialects.xla_indexing import IndexingMapAttr
from hlo2tx8.indexing import IndexingMap
from hlo2tx8.ir import i64_array

ReadAtOp: type[HloForm] = declare("hlo", "read_at", ("map", "index_maps", "dims", "rooms"))
"""result[d] = x[map(d) + sum over k of clamp(i_k[index_maps[k](d)], 0, rooms[k]) along dims[k]]; operands x, i_0, i_1, ..."""


WriteAtOp: type[HloForm] = declare("hlo", "write_at", ("map", "index_maps", "dims", "rooms", "in_order"))
"""results = the first operands, with their elements at a place per element of the updates, the second operands, replaced by what
the region makes of both, or by the updates if there is no region. Place as for read_at; indices are the operands behind.

Updates are taken one after the other along the dimensions `in_order`; along the others all places differ. What an index out of its
room would move is left out.
"""


def place_properties(
    map: IndexingMap, index_maps: Sequence[IndexingMap], dims: Sequence[int], rooms: Sequence[int]
) -> dict[str, IndexingMapAttr | ArrayAttr[IndexingMapAttr] | DenseArrayBase]:
    """The properties of an indexed op that say where it reads or writes."""
    return {
        "map": IndexingMapAttr(map),
        "index_maps": ArrayAttr([IndexingMapAttr(m) for m in index_maps]),
        "dims": i64_array(dims),
        "rooms": i64_array(rooms),
    }
