"""DistributedSession: processes (here threads) that meet at an address and run their chips of one module."""

import socket
from typing import Any

import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.errors import InputError, PodError
from hlo2tx8.spmd.chips import ChipsExecutable
from hlo2tx8.spmd.distributed_session import DistributedSession
from tests.unit.spmd.pods import all_do

SOURCE = """HloModule sums, num_partitions=4
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  x = f32[3,5] parameter(0)
  n = f32[3,5] negate(x)
  sum = f32[3,5] all-reduce(n), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add
  ROOT r = f32[3,5] multiply(sum, x)
}"""
SHARDED = """HloModule whole, num_partitions=4, entry_computation_layout={(f32[8,3]{1,0})->f32[3]{0}}
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  x = f32[8,3] parameter(0), sharding={devices=[4,1]<=[4]}
  zero = f32[] constant(0)
  ROOT r = f32[3] reduce(x, zero), dimensions={0}, to_apply=add, sharding={replicated}
}"""


def address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(("source", "shape"), [(SOURCE, (4, 3, 5)), (SHARDED, (8, 3))], ids=["arrays of chips", "whole arrays"])
def test_runs_are_those_of_one_process(source: str, shape: tuple[int, ...]) -> None:
    x, place = np.random.default_rng(0).standard_normal(shape).astype(np.float32), address()
    together = hlo2tx8.compile(source)
    assert isinstance(together, ChipsExecutable)
    expected = together.local.launch_all(together.module.parts_of([[a] for a in x] if shape[0] == 4 else [[x]]))

    def work(rank: int) -> Any:
        with DistributedSession(source, place, rank=rank, size=2, secret="open") as session:
            session.run(x)
            return session.run(x)

    first, second = (future.result() for future in all_do(2, work))
    assert [*first, *second] == [0, 1, 2, 3]
    for chip, (result,) in (first | second).items():
        assert result.tobytes() == expected[chip][0].tobytes()


def test_an_error_in_one_process_is_heard_in_the_other() -> None:
    place = address()

    def work(rank: int) -> Any:
        with DistributedSession(SOURCE, place, rank=rank, size=2, secret="open") as session:
            if rank:
                raise ValueError("no bread")
            return session.run(np.zeros((4, 3, 5), np.float32))

    errors = [future.exception() for future in all_do(2, work)]
    assert isinstance(errors[0], PodError) and "process 1" in str(errors[0]) and "ValueError: no bread" in str(errors[0])


def test_who_has_another_secret_does_not_take_part() -> None:
    place = address()
    sessions = all_do(2, lambda n: DistributedSession(SOURCE, place, rank=n, size=2, secret=f"{n}", arrival=0.5))
    errors = [str(future.exception()) for future in sessions]
    assert "process 1 of 2 did not come in 0.5 seconds" in errors[0] and "or has another secret" in errors[1]


@pytest.mark.parametrize(("rank", "size", "said"), [(2, 2, "process 2 of 2"), (0, 3, "for 4 chips, which 3 processes")])
def test_what_does_not_fit_is_refused(rank: int, size: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        DistributedSession(SOURCE, "127.0.0.1:1", rank=rank, size=size, secret="open")
    with pytest.raises(InputError, match="no address"):
        DistributedSession(SOURCE, "here", rank=0, size=2, secret="open")
