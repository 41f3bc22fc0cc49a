"""The device `tx8` for jax: `jax.devices("tx8")`, `jax.jit` and everything else on this package's compiler and emulator.

jax calls `initialize` through the entry point group `jax_plugins`. Options, for example eight chips and the strict
emulator: JAX_PJRT_CLIENT_CREATE_OPTIONS="chips:8;mode:strict", or jax.config.update("jax_pjrt_client_create_options", ...).
"""

from functools import cache


@cache
def initialize() -> None:
    """Registers the platform, or where the native library is missing the reason for who asks for it; a second call does nothing."""
    from hlo2tx8.pjrt import native
    from hlo2tx8.pjrt.jax_side import PLATFORM, register, register_reason

    library = native.load()
    if isinstance(library, str):
        register_reason(library)
        return
    from hlo2tx8.pjrt.jax_lowerings import register_lowerings
    from hlo2tx8.pjrt.plugin import Plugin

    plugin = Plugin(library)
    register(plugin.address, plugin.leave_pods, plugin.close, plugin.entries.compiler.has_host_functions)
    register_lowerings(PLATFORM, plugin.entries.host_functions)
