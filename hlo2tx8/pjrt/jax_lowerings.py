"""Lowering rules of jax for platform tx8 where it has none for a foreign platform.

With jax_side.py the plugin's only file that touches private modules of jax and jaxlib.
"""
# pyright: basic

from typing import Any

from hlo2tx8.spmd.host_functions import HOST_CALL_TARGET, HostFunction, HostFunctions


def register_lowerings(platform: str, functions: HostFunctions) -> None:
    """Makes jax lower host callbacks for the platform."""
    from jax._src import callback, debugging, sharding_impls
    from jax._src.interpreters import mlir

    standard = callback.emit_python_callback

    def emit_python_callback(
        ctx: Any, function: Any, token: Any, operands: Any, operand_avals: Any, result_avals: Any, **how: Any
    ) -> Any:
        if tuple(ctx.module_context.platforms) != (platform,):
            return standard(ctx, function, token, operands, operand_avals, result_avals, **how)
        axes = ctx.module_context.axis_context
        if isinstance(axes, sharding_impls.ShardingContext) and axes.num_devices > 1:
            # Partitioned, every device would call the function with its own part.
            raise NotImplementedError("callbacks in programs for several tx8 devices, except inside of shard_map")
        held = HostFunction(_checked(function, result_avals))
        ctx.module_context.add_keepalive(held)
        call = mlir.custom_call(
            HOST_CALL_TARGET,
            result_types=[mlir.aval_to_ir_type(ctx.module_context, aval) for aval in result_avals],
            operands=list(operands),
            backend_config=functions.add(held),
            has_side_effect=how["has_side_effect"],
            api_version=2,
        )
        if how.get("sharding") is not None:
            mlir.set_sharding(ctx.module_context, call, how["sharding"])
        return list(call.results), token, held

    _register_linear_algebra(platform)
    callback.emit_python_callback = emit_python_callback
    mlir.register_lowering(debugging.debug_callback_p, debugging.debug_callback_lowering, platform=platform, cacheable=False)
    mlir.register_lowering(debugging.debug_print_p, debugging.debug_print_lowering_rule, platform=platform, cacheable=False)


def _register_linear_algebra(platform: str) -> None:
    from jax._src.interpreters import mlir
    from jax._src.lax import linalg

    from hlo2tx8.linalg import factorizations, jacobi, schur

    single = ("cholesky", "triangular_solve", "lu_pivots_to_permutation", "householder_product")
    for module, names in (
        (factorizations, (*single, "lu", "geqrf", "geqp3")),
        (jacobi, ("eigh", "svd")),
        (schur, ("hessenberg", "tridiagonal", "schur", "eig")),
    ):
        for name in names:
            rule = mlir.lower_fun(_with_promotion(getattr(module, name)), multiple_results=name not in single)
            mlir.register_lowering(getattr(linalg, f"{name}_p"), rule, platform=platform)


def _with_promotion(function: Any) -> Any:
    """The function under jax's standard rules of promotion, whatever the user has set."""
    import jax

    def call(*args: Any, **kwargs: Any) -> Any:
        with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
            return function(*args, **kwargs)

    return call


def _checked(function: Any, avals: Any) -> Any:
    """The function with its results as arrays of jax's dtypes; RuntimeError if there are too few or many."""
    from jax._src import dtypes

    def call(*arrays: Any) -> Any:
        results = function(*arrays)
        if len(results) != len(avals):
            raise RuntimeError(f"Mismatched number of outputs from callback. Expected: {len(avals)}, Actual: {len(results)}")
        return [dtypes.canonicalize_value(value) for value in results]

    return call
