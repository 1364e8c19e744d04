import pytest

from energyopt.profiler.distributed.launch import Launch, find_launch
from energyopt.schemas.errors import RequestError


def test_a_process_on_its_own() -> None:
    assert find_launch({}) is None
    assert find_launch({"RANK": "", "PATH": "/bin"}) is None


def test_one_of_several() -> None:
    """What torchrun sets, torch's documentation of it says."""
    environ = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "node0"}
    assert find_launch(environ) == Launch(rank=5, size=8, local_rank=1, cuda_number=1)


@pytest.mark.parametrize(("visible", "number"), [("3", 0), ("GPU-1a2b", 0), ("0,1", 1), ("", 1)])
def test_a_launcher_that_shows_each_rank_one_gpu(visible: str, number: int) -> None:
    """As Slurm does with --gpu-bind: CUDA then numbers that GPU 0 whatever the local rank."""
    environ = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "CUDA_VISIBLE_DEVICES": visible}
    launch = find_launch(environ)
    assert launch is not None
    assert launch.cuda_number == number


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({"RANK": "0"}, "RANK is set and WORLD_SIZE, LOCAL_RANK is not: start all ranks with torchrun"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "LOCAL_RANK is not"),
        ({"RANK": "a", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}, "must be numbers"),
        ({"RANK": "2", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}, "rank 2 of 2 cannot be"),
        ({"RANK": "-1", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}, "rank -1 of 2 cannot be"),
    ],
)
def test_what_no_launcher_sets(environ: dict[str, str], problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        find_launch(environ)
