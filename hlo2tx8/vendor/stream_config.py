"""`stream_config`: the text of StreamConfigMap.txt: streams of inputs and outputs, at tile 0, and those between tiles and chips."""

from collections.abc import Iterator

from hlo2tx8.device.chip import Chip
from hlo2tx8.vendor.streams import Tiles, TileStream

BUFFERS = 4
"""Packets in a ring buffer."""


def stream_config(tiles: Tiles, chip: Chip) -> str:
    """Blocks `name{ key: value }` of a chip. Streams of inputs come first; what such a stream carries is one packet, its array."""
    rows, columns = chip.mesh
    arrays = [(number, stream) for number, stream in enumerate(tiles[0]) if stream.scope == "DDR"]
    first, last = ([(n, stream) for n, stream in arrays if stream.is_in is kind] for kind in (True, False))
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
    lines = ["// ==========header=========", *_block("groupStreamCfg", group)]
    for name, streams in (("SFC", first), ("SLC", last)):
        for k, (number, stream) in enumerate(streams):
            more = {"BufferType": 2, "BufferInitType": 1} if stream.is_in else {}
            block = _place(0, number, stream, columns) | {"ArmDataPacketSize": stream.size_bytes} | _ring(stream) | more
            lines += _block(f"{name}_{k}", block)
    for tile, streams in enumerate(tiles):
        where = _tile(tile, columns)
        word = where.partition(" ")[0]
        lines += _block(f"tileStreamCfg_{word}", {"TileId": where, "StreamNum": len(streams)})
        for number, stream in enumerate(streams):
            lines += _block(f"StreamCfg_tile_{word}_{number}", _stream(tile, number, stream, columns))
    return "\n".join(lines) + "\n"


def _stream(tile: int, number: int, stream: TileStream, columns: int) -> dict[str, object]:
    is_array = stream.scope == "DDR"
    words = {"FirstStream": is_array and stream.is_in, "LastStream": is_array and not stream.is_in}
    found = _place(tile, number, stream, columns) | {key: "Yes" if value else "No" for key, value in words.items()}
    found |= {"StreamAttr": "multicast" if len(stream.ends) > 1 else "unicast", "DataPacketSize": stream.size_bytes}
    if is_array:
        found |= {"ArmDataPacketOffset": 0, "ArmDataPacketSize": stream.size_bytes} | _ring(stream)
    found["PairNum"] = len(stream.ends)
    for k, (chip, other, there) in enumerate(stream.ends):
        where = {"ChipId": chip} if stream.scope == "Chip" else {}
        found[f"otherEndCfgFw_{k}"] = {**where, "TileId": _tile(other, columns), "StreamId": there}
    return found


def _place(tile: int, number: int, stream: TileStream, columns: int) -> dict[str, object]:
    kind = "InStream" if stream.is_in else "OutStream"
    return {"TileId": _tile(tile, columns), "StreamId": number, "StreamType": kind, "StreamScope": stream.scope}


def _ring(stream: TileStream) -> dict[str, object]:
    return {"RingBufferSize": BUFFERS * stream.size_bytes, "RingBufferAddrHigh": 0, "RingBufferAddrLow": 0}


def _tile(tile: int, columns: int) -> str:
    """A tile's number in two dimensions, and in one."""
    return f"{tile // columns << 16 | tile % columns} (1d:{tile})"


def _block(name: str, values: dict[str, object], indent: str = "") -> Iterator[str]:
    yield f"{indent}{name}{{"
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _block(key, value, indent + "    ")  # pyright: ignore[reportUnknownArgumentType]
        else:
            yield f"{indent}    {key}: {value}"
    yield f"{indent}}}"
