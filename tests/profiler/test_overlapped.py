"""Which SM counts `profile --overlap` gives communication, and what it refuses."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from energyopt.applier.devices.interface import Identity
from energyopt.profiler import opening
from energyopt.profiler.distributed.boards import fewest_sms
from energyopt.profiler.distributed.launch import Launch
from energyopt.profiler.measurement.settings import Settings
from energyopt.profiler.opening import sm_count
from energyopt.profiler.overlapped import check_overlap, check_sms, overlapped
from energyopt.profiler.request import Request, digest_of
from energyopt.profiler.workloads.interface import Workload
from energyopt.profiler.workloads.open import load_workload
from energyopt.schemas.errors import RequestError

MODEL = "gpt3-xl"
SHARDED = {"data_parallel": 2}
Load = Callable[..., Workload]


def _board(uuid: str = "GPU-B") -> Any:
    return SimpleNamespace(identity=Identity(name="A GPU", uuid=uuid, kind="nvml"))


def _counts(workload: Workload) -> set[int | None]:
    return {one.config.comm_sms for one in workload.composites}


def test_the_usual_counts_are_those_that_the_gpu_has() -> None:
    workload = load_workload(MODEL, SHARDED)
    every = {None, *range(3, 31, 3)}
    assert _counts(overlapped(MODEL, workload, None)) == every
    assert _counts(overlapped(MODEL, workload, 108)) == every
    assert _counts(overlapped(MODEL, workload, 14)) == {None, 3, 6, 9, 12}


def test_counts_that_were_asked_for_are_measured_with_partitions_and_not_alone() -> None:
    workload = load_workload(MODEL, SHARDED | {"comm_sms": (4, 8)})
    assert workload.variants
    found = overlapped(MODEL, workload, 108)
    assert _counts(found) == {None, 4, 8}
    assert found.variants == ()


def test_a_function_s_partitions_are_as_it_declares_them() -> None:
    workload = load_workload(MODEL, SHARDED)
    assert _counts(overlapped("own:function", workload, 108)) == {None}


def test_more_sms_than_there_are_is_refused_alone_or_beside_others() -> None:
    workload = load_workload(MODEL, SHARDED | {"comm_sms": (4, 20)})
    for one in (workload, overlapped(MODEL, workload, 14)):
        check_sms(one, 20, "GPU")
        check_sms(one, None, "GPU")
        with pytest.raises(RequestError, match=r"run on 20 SMs: MIG 1g has 14; .* at most 14"):
            check_sms(one, 14, "MIG 1g")


@pytest.mark.parametrize(
    ("spec", "shape", "complaint"),
    [
        (MODEL, {}, "nothing in gpt3-xl communicates"),
        (
            MODEL,
            {"tensor_parallel": 2, "microbatch_size": 3},
            "has 3 sequences: give an even --microbatch-size",
        ),
        ("own:function", {"tensor_parallel": 2}, "declare launch_points"),
    ],
)
def test_what_cannot_overlap(spec: str, shape: dict[str, Any], complaint: str) -> None:
    with pytest.raises(RequestError, match=complaint):
        check_overlap(spec, load_workload(MODEL, shape))


@pytest.mark.parametrize("shape", [SHARDED, {"tensor_parallel": 2, "microbatch_size": 4}])
def test_what_can_overlap(shape: dict[str, Any]) -> None:
    check_overlap(MODEL, load_workload(MODEL, shape))


def test_a_simulated_gpu_has_the_sms_of_its_data_sheet() -> None:
    for name, sms in (("a100-sxm4-80gb", 108), ("a40", 84), ("h100-sxm5-80gb", 132)):
        assert sm_count(f"sim:{name}", _board(), kernels_on="cuda", cuda_number=0) == sms


def test_cuda_tells_the_sms_of_the_board_that_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    boards = [
        SimpleNamespace(uuid="a", multi_processor_count=108),
        SimpleNamespace(uuid="b", multi_processor_count=14),
    ]
    cuda = SimpleNamespace(device_count=lambda: len(boards), get_device_properties=boards.__getitem__)
    monkeypatch.setattr(opening, "import_torch", lambda: SimpleNamespace(cuda=cuda))
    assert sm_count("auto", _board(), kernels_on="cuda", cuda_number=0) == 14
    assert sm_count("auto", _board("GPU-unknown"), kernels_on="cuda", cuda_number=0) == 108
    assert sm_count("auto", _board(), kernels_on="cpu", cuda_number=0) is None
    boards.clear()
    assert sm_count("auto", _board(), kernels_on="cuda", cuda_number=0) is None


def test_ranks_measure_for_the_gpu_with_the_fewest(tmp_path: Any) -> None:
    request = Request(
        workload=MODEL, output=tmp_path, device="sim:a100-sxm4-80gb", settings=Settings(clocks_mhz=())
    )
    launch = Launch(rank=0, size=3, local_rank=0, cuda_number=0)

    def answering(*others: int | None) -> Any:
        return SimpleNamespace(gather=lambda value: [value, *others])

    assert fewest_sms(request, launch, answering(84, None), _board()) == 84
    assert fewest_sms(request, launch, answering(132, None), _board()) == 108
    assert fewest_sms(request, launch, answering(84, 132), None) == 84
    assert fewest_sms(request, launch, answering(None, None), None) is None


def test_the_digest_of_a_run_covers_what_partitions_run_and_in_which_ways() -> None:
    shape = {"tensor_parallel": 2, "microbatch_size": 2, "comm_sms": (4,)}
    plain = load_workload(MODEL, shape)
    whole = overlapped(MODEL, plain, None)
    first = whole.composites[1]
    assert first.kernel.overlap is not None

    def digest(workload: Workload) -> str:
        board = Identity(name="A GPU", uuid="GPU-0", kind="nvml")
        return digest_of(workload, Settings(clocks_mhz=(1410,)), board, "cuda")

    def changed(**overlap: Any) -> Workload:
        kernel = replace(first.kernel, overlap=replace(first.kernel.overlap, **overlap))  # type: ignore[type-var]
        return replace(whole, composites=(replace(first, kernel=kernel), *whole.composites[1:]))

    last = first.kernel.overlap.compute[-1]
    other = replace(last, kernel=replace(last.kernel, matrix=not last.kernel.matrix))
    found = [
        plain,
        whole,
        overlapped(MODEL, load_workload(MODEL, shape | {"comm_sms": (5,)}), None),
        replace(whole, composites=whole.composites[1:]),
        changed(launch=1),
        changed(communication=None),
        changed(compute=first.kernel.overlap.compute[:-1]),
        changed(compute=(*first.kernel.overlap.compute[:-1], other)),
        changed(compute=(*first.kernel.overlap.compute[:-1], replace(last, count=2))),
        replace(whole, ops=tuple(replace(op, nanobatches=4) for op in whole.ops)),
    ]
    assert len({digest(one) for one in found}) == len(found)
    assert digest(whole) == digest(overlapped(MODEL, load_workload(MODEL, shape), None))
