"""Graphs of torch.export in ops of the table: which are rewritten here, which are left to torch, and that both mean the same."""

# pyright: basic

from typing import Any

import pytest

import hlo2tx8
from hlo2tx8.frontend.torch.functional import functional_graph

torch = pytest.importorskip("torch", reason="the extra hlo2tx8[torch] is not installed")
nn, functional = torch.nn, torch.nn.functional


class Program(nn.Module):
    """A function as a module, with a batch norm and a counter for it to use."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function, self.norm = function, nn.BatchNorm2d(3)
        self.register_buffer("count", torch.zeros(4))
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x: Any) -> Any:
        return self.function(self, x)


def in_place(module: Any, x: Any) -> Any:
    y = module.norm(x)
    z = y.relu_()
    z += x
    return functional.hardswish(y, inplace=True) * 2 + z  # all three names are one tensor


def parts_in_place(module: Any, x: Any) -> Any:
    mask = x.new_zeros(4, 4)
    for row in range(0, 4, 2):
        mask[row : row + 2, 1:3] = row + 1
    mask[3] = 7
    mask[:, 0].add_(0.5)
    return x + mask


def view_made_later(module: Any, x: Any) -> Any:
    y = module.norm(x)
    y += 1
    flat = y.flatten(1)
    return flat * 2


def composites(module: Any, x: Any) -> Any:
    y = functional.layer_norm(functional.dropout(functional.pad(x, (1, 1)), training=False), (6,))
    y = functional.conv2d(y, torch.ones(3, 3, 3, 3), padding="same") + functional.conv2d(y, torch.ones(3, 3, 1, 1))
    return functional.softmax(y.chunk(2, -1)[1], -1), functional.conv2d(y[0], torch.ones(3, 3, 2, 2), stride=2)


def same_and_other(module: Any, x: Any) -> Any:
    y = x > 0
    return y & y, y & (x > 1), functional.pad(x, (1, 1), value=0.0), functional.pad(x, (1, 1), value=-0.0)


def view_made_before(module: Any, x: Any) -> Any:
    y = module.norm(x)
    row = y[:, 0]
    y += 1
    return row * 2


def written_view_is_read(module: Any, x: Any) -> Any:
    y = module.norm(x)
    row = y[0]
    row += 1
    return row, y


def copy_of_nothing(module: Any, x: Any) -> Any:
    y = module.norm(x)
    z = y.contiguous()  # y itself
    y += 1
    return z


def input_in_place(module: Any, x: Any) -> Any:
    x += 1
    return x * 2


def buffer_in_place(module: Any, x: Any) -> Any:
    module.count += 1
    return x + module.count


def compare(program: Any, left_to_torch: bool) -> None:
    """Runs a program on the chip twice, and by torch; is it left to torch if that is said?"""
    x = torch.randn(2, 3, 4, 4)
    module = Program(program).eval()
    exported = torch.export.export(module, (x.clone(),))
    assert (functional_graph(exported.graph_module) is None) == left_to_torch
    other = Program(program).eval()
    other.load_state_dict(module.state_dict())
    executable = hlo2tx8.compile(module, args=(x.clone(),))
    for _ in range(2):
        own, theirs = x.clone(), x.clone()
        torch.testing.assert_close(executable(own), other(theirs), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close((own, module.count), (theirs, other.count))


@pytest.mark.parametrize(
    "program", [in_place, parts_in_place, view_made_later, copy_of_nothing, composites, same_and_other], ids=lambda p: p.__name__
)
def test_rewritten(program: Any):
    """What writes to tensors of its own, and composite ops, need no second trace."""
    with torch.no_grad():
        compare(program, left_to_torch=False)


@pytest.mark.parametrize(
    "program", [view_made_before, written_view_is_read, input_in_place, buffer_in_place], ids=lambda p: p.__name__
)
def test_left_to_torch(program: Any):
    """Views that see a write that comes later, and inputs and buffers that are written to."""
    with torch.no_grad():
        compare(program, left_to_torch=True)


def test_training_statistics_are_left_to_torch():
    """A batch norm in training writes to its running statistics without saying so."""
    module = Program(lambda own, x: own.norm(x)).train()
    x = torch.randn(2, 3, 4, 4)
    assert functional_graph(torch.export.export(module, (x,)).graph_module) is None


def test_given_graph_stays():
    """The graph that is rewritten is a copy."""
    exported = torch.export.export(Program(in_place).eval(), (torch.randn(2, 3, 4, 4),))
    before = str(exported.graph)
    assert functional_graph(exported.graph_module) is not None
    assert str(exported.graph) == before
