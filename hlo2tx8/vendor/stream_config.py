"""`stream_config`: the text of StreamConfigMap.txt: a stream for each input and output, all at tile 0."""

from collections.abc import Iterator, Sequence

from hlo2tx8.device.chip import Chip
from hlo2tx8.hlo.signature import Port

BUFFERS = 4
"""Packets in a ring buffer."""


def stream_config(inputs: Sequence[Port], outputs: Sequence[Port], chip: Chip) -> str:
    """Blocks `name{ key: value }`. Streams of inputs come first; what a stream carries is one packet, its array."""
    rows, columns = chip.mesh
    streams = [("InStream", port) for port in inputs] + [("OutStream", port) for port in outputs]
    first, last = range(len(inputs)), range(len(inputs), len(streams))
    group: dict[str, object] = {
        "FirstStreamNum": len(first),
        "LastStreamNum": len(last),
        "TileNum": chip.tiles,
        "GroupXlen": columns,
        "GroupYlen": rows,
        "ModelTaskType": "Inference",
        "InferenceType": "FixNumber",
        "Batch": 0,
        "MiniBatch": 0,
        "MiniBatchRound": 0,
    }
    blocks: list[tuple[str, dict[str, object]]] = [("groupStreamCfg", group)]
    for name, numbers in (("SFC", first), ("SLC", last)):
        blocks += [(f"{name}_{k}", _end(number, *streams[number], is_first=name == "SFC")) for k, number in enumerate(numbers)]
    for tile in range(chip.tiles):
        where = _place(tile, columns)
        own = streams if tile == 0 else []
        blocks.append((f"tileStreamCfg_{where.partition(' ')[0]}", {"TileId": where, "StreamNum": len(own)}))
        for number, (kind, port) in enumerate(own):
            end = _end(number, kind, port, is_first=False)
            words = {"FirstStream": "Yes" if number in first else "No", "LastStream": "Yes" if number in last else "No"}
            size = {"StreamAttr": "unicast", "DataPacketSize": port.size_bytes, "ArmDataPacketOffset": 0}
            order = ("TileId", "StreamId", "StreamType", "StreamScope")
            rest = {key: value for key, value in end.items() if key not in order}
            block: dict[str, object] = {**{key: end[key] for key in order}, **words, **size, **rest, "PairNum": 0}
            blocks.append((f"StreamCfg_tile_{where.partition(' ')[0]}_{number}", block))
    return "\n".join(["// ==========header=========", *(line for name, block in blocks for line in _block(name, block))]) + "\n"


def _place(tile: int, columns: int) -> str:
    """A tile's number in two dimensions, and in one."""
    return f"{tile // columns << 16 | tile % columns} (1d:{tile})"


def _end(number: int, kind: str, port: Port, *, is_first: bool) -> dict[str, object]:
    ring = {"RingBufferSize": BUFFERS * port.size_bytes, "RingBufferAddrHigh": 0, "RingBufferAddrLow": 0}
    more: dict[str, object] = {"BufferType": 2, "BufferInitType": 1} if is_first else {}
    where: dict[str, object] = {"TileId": _place(0, 1), "StreamId": number, "StreamType": kind, "StreamScope": "DDR"}
    return where | {"ArmDataPacketSize": port.size_bytes} | ring | more


def _block(name: str, values: dict[str, object]) -> Iterator[str]:
    yield f"{name}{{"
    yield from (f"    {key}: {value}" for key, value in values.items())
    yield "}"
