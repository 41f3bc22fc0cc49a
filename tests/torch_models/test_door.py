"""PyTorch through every door: modules, exported programs, `.pt2` files, commands; what is refused, and how."""

# pyright: basic

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.errors import InputError, ParseError, UnsupportedError
from hlo2tx8.frontend.torch.arrays import array_of, tensor_of
from hlo2tx8.tools.main import main

torch = pytest.importorskip("torch", reason="the extra hlo2tx8[torch] is not installed")
nn, functional = torch.nn, torch.nn.functional


class Affine(nn.Module):
    """gelu(x w + b) with a buffer that counts calls."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 5)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Any, *, scale: float = 1.0) -> Any:
        self.calls.add_(1)
        return {"y": functional.gelu(self.linear(x)) * scale, "x": x}


def of(function: Any) -> Any:
    """A module of a function."""
    module = nn.Module()
    module.forward = function
    return module


def compiled(module: Any, *inputs: Any) -> Any:
    """A module for inputs."""
    return hlo2tx8.compile(module, args=inputs)


def compared(function: Any, *inputs: Any) -> None:
    """The module's results are eager's."""
    module = function if isinstance(function, nn.Module) else of(function)
    wanted = module(*inputs)
    torch.testing.assert_close(hlo2tx8.compile(module, args=inputs)(*inputs), wanted, rtol=1e-4, atol=1e-5)


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)


def test_modules_programs_and_files_are_one_program(tmp_path: Path):
    module, x = Affine(), torch.randn(3, 4)
    program = torch.export.export(module, (x,))
    torch.export.save(program, tmp_path / "m.pt2")
    wanted = functional.gelu(module.linear(x))
    for source, args in ((module, (x,)), (program, None), (str(tmp_path / "m.pt2"), None), (tmp_path / "m.pt2", None)):
        found = hlo2tx8.compile(source, args=args)(x)
        torch.testing.assert_close(found["y"], wanted, rtol=1e-5, atol=1e-5)
        assert found["x"] is x
    assert module.calls == 2  # of the module and of its program; the file has its own


def test_parameters_are_read_in_each_call():
    module, x = Affine(), torch.randn(3, 4)
    executable = hlo2tx8.compile(module, args=(x,))
    with torch.no_grad():
        module.linear.weight.zero_()
    torch.testing.assert_close(executable(x)["y"], functional.gelu(module.linear.bias).expand(3, 5))


def test_commands_take_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    torch.export.save(torch.export.export(nn.Linear(4, 5), (torch.ones(3, 4),)), tmp_path / "m.pt2")
    assert main(["run", "--level=all", str(tmp_path / "m.pt2")]) == 0
    assert "0/1 runs failed" in capsys.readouterr().err


def test_inputs_that_are_written_are_written():
    def forward(x: Any, y: Any) -> Any:
        x.mul_(2)
        return x + y

    x, y = torch.ones(3), torch.ones(3)
    found = hlo2tx8.compile(of(forward), args=(x, y))(x, y)
    assert x.tolist() == [2, 2, 2] and found.tolist() == [3, 3, 3]


def test_dtypes_without_arrays_of_numpy():
    x = torch.randn(4, 8).to(torch.bfloat16)
    compared(lambda x: (x * 3, x.to(torch.float8_e4m3fn).to(torch.float32)), x)


def test_precision_is_what_torch_says():
    x = torch.randn(16, 16)
    text = {}
    for word in ("highest", "high", "medium"):
        torch.set_float32_matmul_precision(word)
        text[word] = compiled(of(lambda x: x @ x), x).executable.as_text("hlo").lower()
    torch.set_float32_matmul_precision("highest")
    assert "highest" in text["highest"] and "high" in text["high"] and "highest" not in text["high"] + text["medium"]


def test_sizes_that_a_program_leaves_open_are_those_of_the_inputs():
    sizes = {"input": {0: torch.export.Dim("n", min=2, max=64)}}
    program = torch.export.export(nn.Linear(4, 5), (torch.ones(3, 4),), dynamic_shapes=sizes)
    x = torch.randn(7, 4)
    torch.testing.assert_close(hlo2tx8.compile(program, args=(x,))(x), program.module()(x), rtol=1e-5, atol=1e-5)
    with pytest.raises(InputError, match="leaves sizes open"):
        hlo2tx8.compile(program)


def test_what_cannot_be_compiled_is_listed_with_lines():
    def forward(x: Any) -> Any:
        return torch.nonzero(x).sum(), torch.unique(x).sum()

    with pytest.raises(UnsupportedError, match=r"nonzero.*depends on what is computed at .*test_door.py:\d+"):
        hlo2tx8.compile(of(forward), args=(torch.ones(3),))


def test_calls_of_another_kind_are_errors():
    executable = hlo2tx8.compile(Affine(), args=(torch.ones(3, 4),))
    with pytest.raises(InputError, match=r"input 3 should be f32\[3,4\], got f32\[2,4\]"):
        executable(torch.ones(2, 4))
    with pytest.raises(InputError, match="takes"):
        executable(torch.ones(3, 4), torch.ones(3, 4))
    with pytest.raises(InputError, match="example inputs"):
        hlo2tx8.compile(Affine())


def test_random_numbers_come_from_torchs_seed():
    executable = hlo2tx8.compile(of(lambda x: functional.dropout(x, 0.5)), args=(torch.ones(64),))
    torch.manual_seed(1)
    first, second = executable(torch.ones(64)), executable(torch.ones(64))
    torch.manual_seed(1)
    assert torch.equal(executable(torch.ones(64)), first) and not torch.equal(first, second)
    assert set(first.tolist()) == {0.0, 2.0}


def changed(data: bytes, member: str, change: Any) -> bytes:
    """An archive with one JSON member changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w") as target:
        for info in source.infolist():
            content = source.read(info)
            if info.filename.endswith(member):
                value = json.loads(content)
                change(value)
                content = json.dumps(value).encode()
            target.writestr(info.filename, content)
    return out.getvalue()


def test_files_that_would_execute_something_are_refused(tmp_path: Path):
    buffer = io.BytesIO()
    torch.export.save(torch.export.export(nn.Linear(4, 5), (torch.ones(3, 4),)), buffer)
    data = buffer.getvalue()
    node = lambda v: v["graph_module"]["graph"]["nodes"][0]
    size = {"as_expr": {"expr_str": "__import__('os').getpid()", "hint": {"as_int": 3}}}
    first = lambda v: next(iter(v["graph_module"]["graph"]["tensor_values"].values()))
    for member, change in (
        ("weights_config.json", lambda v: v["config"]["weight"].update(use_pickle=True)),
        ("weights_config.json", lambda v: v["config"]["weight"].update(path_name="opaque_obj_0")),
        ("models/model.json", lambda v: node(v).update(target="torch.hub.load")),
        ("models/model.json", lambda v: first(v)["sizes"].append(size)),
    ):
        path = tmp_path / "m.pt2"
        path.write_bytes(changed(data, member, change))
        with pytest.raises(InputError, match=r"m\.pt2 holds"):
            hlo2tx8.compile(path)
    for cut in (data[:100], data[: len(data) // 2]):
        path.write_bytes(cut)
        with pytest.raises((ParseError, InputError)):
            hlo2tx8.compile(path)


def test_gradients_of_layers_are_those_of_eager():
    torch.manual_seed(3)
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 2), nn.AvgPool2d(2), nn.Flatten())
    x = torch.randn(2, 2, 10, 10)
    found = {}
    for name, function in (("eager", net), ("tx8", torch.compile(net, backend="tx8"))):
        net.zero_grad()
        function(x).square().sum().backward()
        found[name] = [p.grad.clone() for p in net.parameters()]
    torch.testing.assert_close(found["tx8"], found["eager"], rtol=1e-4, atol=1e-4)


def test_open_sizes_of_a_compiled_function_are_those_of_the_call():
    function = torch.compile(lambda x: (x * x.shape[0]).softmax(-1), backend="tx8", dynamic=True)
    for rows in (3, 5, 3):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(function(x), (x * rows).softmax(-1), rtol=1e-5, atol=1e-6)


def test_arrays_share_memory():
    for dtype in (torch.float32, torch.bfloat16, torch.float8_e5m2, torch.int64, torch.bool, torch.complex64):
        tensor = torch.ones(3, 4).to(dtype)
        array = array_of(tensor)
        assert array.__array_interface__["data"][0] == tensor.data_ptr() and tensor_of(array).data_ptr() == tensor.data_ptr()
    assert isinstance(array_of(torch.ones(2).to(torch.bfloat16)), np.ndarray)
