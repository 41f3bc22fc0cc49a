"""jit on the device: results, errors, donation, what an executable says about itself."""

import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import serialize_executable

TX8 = jax.devices("tx8")[0]


def check_jit():
    @jax.jit
    def f(x, y):
        return jnp.tanh(x) * y, x.sum()

    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
    product, total = f(x, np.float32(3))
    np.testing.assert_allclose(product, np.tanh(x) * 3, rtol=1e-6)
    np.testing.assert_allclose(total, x.sum(), atol=1e-6)
    assert product.devices() == {TX8}


def check_cpu_and_tx8_in_one_process():
    cpu = jax.devices("cpu")[0]
    f = jax.jit(lambda x: x * 2 + 1)
    x = np.arange(4, dtype=np.float32)
    on_cpu, on_tx8 = f(jax.device_put(x, cpu)), f(jax.device_put(x, TX8))
    assert on_cpu.devices() == {cpu} and on_tx8.devices() == {TX8}
    np.testing.assert_array_equal(on_cpu, on_tx8)
    with jax.default_device(cpu):
        assert jnp.ones(3).devices() == {cpu}


def check_gradient():
    g = jax.jit(jax.grad(lambda x: (jnp.sin(x) ** 2).sum()))
    x = np.linspace(0, 3, 7, dtype=np.float32)
    np.testing.assert_allclose(g(x), np.sin(2 * x), atol=1e-6)


def check_donation():
    f = jax.jit(lambda x: x + 1, donate_argnums=0)
    x = jax.device_put(np.arange(4, dtype=np.float32), TX8)
    y = f(x)
    assert x.is_deleted()
    np.testing.assert_array_equal(f(y), np.arange(4) + 2)


def check_a_donated_cache_is_updated_in_place():
    def append(cache, row, at):
        return jax.lax.dynamic_update_slice(cache, row, (at, 0))

    cache, row = np.zeros((256, 256), np.float32), np.ones((1, 256), np.float32)
    plain, donating = (jax.jit(append, donate_argnums=n).lower(cache, row, 3).compile() for n in ((), 0))
    assert donating.cost_analysis()["bytes accessed"] < plain.cost_analysis()["bytes accessed"] / 50
    x = jax.device_put(cache, TX8)
    shown = np.asarray(x)
    for at in range(3):
        x = donating(x, row, at)
    np.testing.assert_array_equal(np.asarray(x).sum(axis=1)[:4], [256, 256, 256, 0])
    assert not shown.any() and not cache.any()


def check_refusals_are_jax_errors():
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"(?s)UNIMPLEMENTED.*1 x stablehlo.custom_call.*programs.py"):
        jax.jit(jax.ffi.ffi_call("nobodys", jax.ShapeDtypeStruct((4,), np.float32)))(np.ones(4, np.float32))


def check_analyses():
    compiled = jax.jit(lambda x: x + 1).lower(np.zeros((8, 16), np.float32)).compile()
    costs = compiled.cost_analysis()
    assert costs["cycles"] > 0
    assert costs["counters.CT.instructions"] > 0
    assert 0 < costs["counters.CT.busy_cycles"] <= costs["busy_cycles.CT"]
    memory = compiled.memory_analysis()
    assert memory.argument_size_in_bytes == memory.output_size_in_bytes == 512
    assert "add" in compiled.as_text()
    np.testing.assert_array_equal(compiled(np.zeros((8, 16), np.float32)), np.ones((8, 16)))


def check_compiler_options():
    lowered = jax.jit(lambda x: x * 3).lower(np.zeros(5, np.float32))
    np.testing.assert_array_equal(lowered.compile({"mode": "strict"})(np.ones(5, np.float32)), 3 * np.ones(5))
    with pytest.raises(jax.errors.JaxRuntimeError, match="No such compile option: 'colour'"):
        lowered.compile({"colour": "red"})


def check_many_arguments():
    f = jax.jit(lambda *xs: [x + i for i, x in enumerate(xs)])
    xs = [np.full((i, 2), i, np.int32) for i in range(10)]
    for i, y in enumerate(f(*xs)):
        np.testing.assert_array_equal(y, xs[i] + i)


def check_asynchronous_results():
    f = jax.jit(lambda x: jnp.sin(x) * 2)
    x = jax.device_put(np.ones((512, 512), np.float32), TX8)
    chain = [x]
    for _ in range(4):
        chain.append(f(chain[-1]))
    expected = np.ones((), np.float32)
    for _ in range(4):
        expected = np.sin(expected) * 2
    np.testing.assert_allclose(np.asarray(jax.block_until_ready(chain[-1]))[0, 0], expected, rtol=1e-5)


def check_serialized_executables():
    f = jax.jit(lambda x: jnp.sin(x) + 1, donate_argnums=0)
    x = np.arange(4, dtype=np.float32)
    data, inputs, outputs = serialize_executable.serialize(f.lower(x).compile())
    loaded = serialize_executable.deserialize_and_load(data, inputs, outputs, backend="tx8")
    y = loaded(x)
    np.testing.assert_array_equal(y, f(x))
    assert loaded.memory_analysis().alias_size_in_bytes == 16


def check_the_persistent_cache():
    def f(x):
        return jnp.cos(x) * 3

    x = np.arange(4, dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        options = {"jax_compilation_cache_dir": folder, "jax_persistent_cache_min_compile_time_secs": 0}
        before = {name: getattr(jax.config, name) for name in options}
        for name, value in options.items():
            jax.config.update(name, value)
        first = np.asarray(jax.jit(f)(x))
        stored = list(Path(folder).glob("*-cache"))
        assert len(stored) == 1
        jax.clear_caches()
        np.testing.assert_array_equal(jax.jit(f)(x), first)
        assert list(Path(folder).glob("*-cache")) == stored
        jax.jit(lambda x: jax.pure_callback(np.sin, x, x))(x)  # calls a function of this process: of no use to another
        assert list(Path(folder).glob("*-cache")) == stored
        for name, value in before.items():
            jax.config.update(name, value)


def check_random_numbers():
    key = jax.random.key(7)
    x = jax.random.normal(key, (50,))
    with jax.default_device(jax.devices("cpu")[0]):
        expected = jax.random.normal(jax.random.key(7), (50,))
    np.testing.assert_allclose(x, expected, rtol=2e-6, atol=1e-7)


def check_a_buffer_is_donated_once():
    f = jax.jit(lambda x, y: x + y, donate_argnums=0)
    x = jax.device_put(np.arange(4, dtype=np.float32), TX8)
    with pytest.raises(RuntimeError, match="donated and used twice"):
        f(x, x)


def check_sharding_constraints_on_one_device():
    mesh = jax.sharding.Mesh(np.array([TX8]), "x")
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    f = jax.jit(lambda x: jax.lax.with_sharding_constraint(x * 2, sharding) + 1)
    np.testing.assert_array_equal(f(np.arange(4, dtype=np.float32)), np.arange(4) * 2 + 1)


def check_options_of_xla_are_of_their_types():
    lowered = jax.jit(lambda x: x + 1).lower(np.float32(1))
    for good in (True, "true", "False"):
        lowered.compile({"xla_embed_ir_in_executable": good, "xla_cpu_enable_fast_math": good, "xla_unheard_of": 7})
    lowered.compile({"xla_backend_optimization_level": "2", "xla_dump_hlo_pass_re": "none"})
    for name, value, kind in (("xla_embed_ir_in_executable", "maybe", "bool"), ("xla_dump_max_hlo_modules", "many", "int")):
        with pytest.raises(jax.errors.JaxRuntimeError, match=f"option {name}, '{value}' is not a valid {kind} value."):
            lowered.compile({name: value})


def check_the_timeline_of_the_device():
    f = jax.jit(lambda x: jnp.tanh(x).sum())
    compiled = f.lower(np.zeros(64, np.float32)).compile()
    for turns in (2, 3):
        with tempfile.TemporaryDirectory() as folder:
            with jax.profiler.trace(folder):
                for _ in range(turns):
                    f(np.zeros(64, np.float32)).block_until_ready()
            (path,) = Path(folder).rglob("*.xplane.pb")
            planes = {plane.name: plane for plane in jax.profiler.ProfileData.from_file(str(path)).planes}
        runs, modelled, fusions = (list(line.events) for line in planes["/device:CUSTOM:tx8:0"].lines)
        assert len(runs) == len(modelled) == turns
        costs = compiled.cost_analysis()
        assert dict(modelled[0].stats)["cycles"] == costs["cycles"]
        np.testing.assert_allclose(sum(e.duration_ns for e in fusions), turns * costs["seconds"] * 1e9, atol=len(fusions))


def check_the_instruction_that_makes_a_nan_is_named():
    f = jax.jit(lambda x: jnp.sqrt(x - 3) * x)
    jax.config.update("jax_debug_nans", True)
    try:
        with pytest.warns(RuntimeWarning) as warned, pytest.raises(FloatingPointError, match="sqrt"):
            jax.block_until_ready(f(jax.device_put(np.ones((4, 4), np.float32), TX8)))
    finally:
        jax.config.update("jax_debug_nans", False)
    first = str(warned[0].message)
    assert "16 of 16 elements are NaN, the first element 0 of -2; operand 0: -2 to -2" in first
    assert "at tile 0, engine CT" in first and "programs.py:" in first
