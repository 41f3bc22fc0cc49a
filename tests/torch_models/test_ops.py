"""ATen ops on the emulator against torch: values that are not finite, dtypes, tails, empty tensors, ranks from 0 on."""

# pyright: basic

from typing import Any

import pytest

import hlo2tx8

torch = pytest.importorskip("torch", reason="the extra hlo2tx8[torch] is not installed")
functional = torch.nn.functional
NAN, INF = float("nan"), float("inf")


class Called(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def compare(function: Any, *inputs: Any, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    """The compiled function's results are torch's, dtypes and NaN too."""
    wanted = function(*[tensor.clone() for tensor in inputs])
    found = hlo2tx8.compile(Called(function), args=inputs)(*inputs)
    torch.testing.assert_close(found, wanted, rtol=rtol, atol=atol, equal_nan=True, check_stride=False)


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)


def test_values_that_are_not_finite():
    x = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.5, -2.5, 3.0])
    compare(lambda x: (x.clamp(-1, 1), x.relu(), x.sign(), x.round(), functional.elu(x), x.softmax(0), x.sigmoid()), x)
    compare(lambda x: (x.max(), x.min(0), x.sort(), x.argmax(), x.cummax(0), x.nan_to_num(), x.median(), x.nanmedian()), x)
    compare(lambda x: (x // 2, x % 2, x.fmod(2), -x // 0.3, x.floor_divide(-2), x.pow(2), x**0.5, 2**x), x)


def test_signs_of_remainders_and_quotients_of_integers():
    a = torch.tensor([7, -7, 7, -7, 0, 6, -6])
    b = torch.tensor([2, 2, -2, -2, 3, -3, 3])
    compare(lambda a, b: (a % b, a // b, a.fmod(b), torch.div(a, b, rounding_mode="trunc"), a / b, a << 1, a >> 1), a, b)


def test_numbers_that_do_not_fit():
    """An epsilon over a half, steps of integers with a fraction."""
    x = torch.tensor([-1.0, 0.1, 0.45, 0.55, 0.9, 2.0, NAN])
    compare(lambda x: (torch.logit(x, 0.6), torch.logit(x, 0.2), torch.logit(x, 0.5)), x)
    steps = [(5, 0, -0.5), (2.5, 9.7, 1.3), (0, -10, -2.9), (0, 10, 0.7)]
    compare(lambda x: tuple(torch.arange(*s, dtype=d) + x.sum().isnan() for s in steps for d in (torch.int64, torch.float32)), x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.uint8, torch.bool])
def test_dtypes(dtype: Any):
    x, y = (torch.randint(0, 5, (3, 7)).to(dtype) for _ in range(2))
    compare(
        lambda x, y: (x + y, x * y, x == y, torch.where(x > y, x, y), x.sum(), torch.cat([x, y], 1), x.to(torch.float32) + 1), x, y
    )
    if dtype.is_floating_point:
        compare(lambda x, y: (x @ y.T, x.softmax(-1), functional.layer_norm(x, (7,)), x.mean(0)), x, y, rtol=1e-2, atol=1e-2)


def test_numbers_of_rank_0_and_tensors_without_elements():
    compare(lambda x: (x + 1, x.sum(), x.softmax(0), x.sort(), x.cumsum(0), x.reshape(1, 1)), torch.tensor(2.5))
    compare(lambda x: (x + 1, x.sum(1), torch.cat([x, x], 0), x.reshape(4, 0), x @ x.mT), torch.zeros(0, 4))


@pytest.mark.parametrize("ceil", [False, True])
def test_pools_with_uneven_windows(ceil: bool):
    x = torch.randn(2, 3, 7, 9)
    compare(lambda x: functional.max_pool2d(x, 3, 2, 1, 1, ceil, True), x)
    compare(lambda x: functional.avg_pool2d(x, (3, 2), 2, 1, ceil, False), x)
    compare(lambda x: functional.avg_pool2d(x, 2, 2, 0, ceil, True, 3), x)
    compare(lambda x: (functional.adaptive_avg_pool2d(x, (4, 3)), functional.adaptive_max_pool2d(x, (3, 9), True)), x)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_resizing(mode: str):
    x = torch.randn(1, 2, 5, 7)
    corners = {"align_corners": True} if mode.startswith("bi") else {}
    compare(lambda x: functional.interpolate(x, (8, 3), mode=mode, **corners), x)
    compare(lambda x: functional.interpolate(x, scale_factor=1.7, mode=mode), x)
    if corners:
        compare(lambda x: functional.interpolate(x, (3, 4), mode=mode, antialias=True), x)


def test_convolutions():
    x, w = torch.randn(2, 4, 9, 8), torch.randn(6, 2, 3, 2)
    compare(lambda x, w: functional.conv2d(x, w, None, (2, 1), 1, (1, 2), 2), x, w)
    compare(lambda x, w: functional.conv_transpose2d(x, w, None, 2, 1, 1, 2, (2, 2)), x, torch.randn(4, 3, 3, 2))
    compare(lambda x, w: functional.conv1d(x[:, :, 0], w[:, :, 0], padding="same", groups=2), x, w)


def test_attention_with_masks_and_shared_heads():
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 6)
    mask = torch.rand(5, 7) > 0.3
    mask[2] = False
    attend = functional.scaled_dot_product_attention
    compare(lambda q, k, v, m: attend(q, k, v, m, enable_gqa=True), q, k, v, mask)
    compare(lambda q, k, v: attend(q, k, v, is_causal=True, scale=0.3, enable_gqa=True), q, k, v)


def test_elements_that_are_written():
    x = torch.randn(4, 6)
    index = torch.tensor([[0, 2, 1], [3, 3, 0]])
    compare(lambda x, i: x.scatter_reduce(1, i, x[:2, :3], "mean", include_self=False), x, index)
    compare(lambda x, i: (x.scatter_add(0, i, x), x.gather(1, i), x[i[0], 1:], x.index_add(0, i[0], x[:3])), x, index)

    def masked(x: Any) -> Any:
        y = x.clone()
        y[x > 0] = 0
        y[:, 1] = y[:, 2]
        y[1::2, :3] += 1
        return y, x.masked_fill(x > 1, -INF), x.masked_scatter(x > 0, x)

    compare(masked, x)


def test_loops_and_conditions():
    from torch._higher_order_ops import cond

    compare(lambda x: cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)), torch.randn(3))
    compare(lambda x: cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)), -torch.ones(3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 5), (2, 4, 3, 5)])
def test_batch_norms_with_running_statistics(shape: tuple[int, ...], dtype: Any):
    x, mean, w, b = (torch.randn(sizes).to(dtype) for sizes in (shape, 4, 4, 4))
    variance = torch.rand(4).to(dtype) + 0.5
    loose = 2e-2 if dtype == torch.bfloat16 else 1e-5
    compare(lambda x, *given: functional.batch_norm(x, *given), x, mean, variance, w, b, rtol=loose, atol=loose)
    compare(lambda x, mean, variance: functional.batch_norm(x, mean, variance, eps=0.1), x, mean, variance, rtol=loose, atol=loose)
