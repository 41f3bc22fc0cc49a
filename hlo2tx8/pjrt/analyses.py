"""What executables say about themselves, in the form jax wants."""

from collections.abc import Iterator, Mapping

STATS = (
    "generated_code_size_in_bytes", "argument_size_in_bytes", "output_size_in_bytes", "alias_size_in_bytes", "temp_size_in_bytes",
    "host_generated_code_size_in_bytes", "host_argument_size_in_bytes", "host_output_size_in_bytes", "host_alias_size_in_bytes",
    "host_temp_size_in_bytes", "peak_memory_in_bytes", "total_size_in_bytes", "total_allocation_bytes", "indefinite_allocations",
    "peak_unpadded_heap_bytes",
)  # fmt: skip
"""Fields of PJRT_Executable_GetCompiledMemoryStats."""


def numbers(name: str, value: object) -> Iterator[tuple[str, float]]:
    """The numbers of nested mappings, by dotted names."""
    if isinstance(value, Mapping):
        for key, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from numbers(f"{name}.{key}" if name else str(key), inner)  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, (int, float)):
        yield name, float(value)
