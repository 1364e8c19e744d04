"""The rules of CUDA_VISIBLE_DEVICES; the cases with words and signs are those that torch's own tests state."""

import sys
from types import SimpleNamespace

import pytest

from energyopt.applier.devices.nvml.resolve import ListedBoard, resolve, visible_uuids
from energyopt.schemas.errors import DeviceError

UUIDS = [f"GPU-{digit * 8}-0000-0000-0000-000000000000" for digit in "abcdef"]
SAME = [ListedBoard(uuid=uuid, name="NVIDIA A40") for uuid in UUIDS]
MIXED = [ListedBoard(uuid=uuid, name=f"GPU model {uuid[4]}") for uuid in UUIDS]
ALIKE = [ListedBoard(uuid=f"GPU-aaaa{digit}", name="NVIDIA A40") for digit in "12"]
MIG = "MIG-99999999-0000-0000-0000-000000000000"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (None, [0, 1, 2, 3, 4, 5]),
        ("", []),
        (" ", []),
        ("-1", []),
        ("2,0", [2, 0]),
        (" 2 , 0 ", [2, 0]),
        ("0,2,-1,1", [0, 2]),
        ("0,1,2,1", []),
        ("1gpu2,2ampere", [1, 2]),
        ("2, +3, -0, 5", [2, 3, 0, 5]),
        ("one,two,3,4", []),
        ("4,3,two,one", [4, 3]),
        ("1,,2", [1]),
        ("1,6,2", [1]),
        ("1,99,1", []),
        (f"{UUIDS[3]},{UUIDS[1]}", [3, 1]),
        ("GPU-d, GPU-b", [3, 1]),
        ("GPU-d,GPU-dddd", []),
        ("GPU-d,GPU-,GPU-b", [3]),
        ("GPU-d,GPU-7,GPU-7", []),
        ("GPU-d,GPU-7,GPU-b", [3]),
        ("GPU-d,1", [3]),
        ("1,GPU-d", [1]),
    ],
)
def test_visible_devices_are_numbered_as_cuda_does(text: str | None, seen: list[int]) -> None:
    environ = {} if text is None else {"CUDA_VISIBLE_DEVICES": text}
    assert visible_uuids(SAME, environ) == tuple(UUIDS[number] for number in seen)


def test_a_uuid_cut_too_short_ends_the_list() -> None:
    assert visible_uuids(ALIKE, {"CUDA_VISIBLE_DEVICES": "GPU-aaaa"}) == ()
    assert visible_uuids(ALIKE, {"CUDA_VISIBLE_DEVICES": "GPU-aaaa2"}) == ("GPU-aaaa2",)


def test_of_mig_slices_only_the_first_is_seen() -> None:
    environ = {"CUDA_VISIBLE_DEVICES": f"{MIG},MIG-other"}
    assert visible_uuids(SAME, environ) == (MIG,)
    assert resolve("0", SAME, environ) == MIG


def test_an_ordinal_counts_the_visible_devices() -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "4,2"}
    assert resolve("1", SAME, environ) == UUIDS[2]
    assert resolve("auto", SAME, environ) == UUIDS[4]
    with pytest.raises(DeviceError, match=r"CUDA sees 2 GPU\(s\) here, so there is no device 2"):
        resolve("2", SAME, environ)


def test_nothing_visible_is_said_with_the_variable() -> None:
    with pytest.raises(DeviceError, match=r"CUDA sees 0 GPU\(s\).*CUDA_VISIBLE_DEVICES is ''"):
        resolve("auto", SAME, {"CUDA_VISIBLE_DEVICES": ""})


@pytest.mark.parametrize("text", [None, "0", "1,0"])
def test_numbers_need_the_pci_order_where_models_differ(text: str | None) -> None:
    environ = {} if text is None else {"CUDA_VISIBLE_DEVICES": text}
    with pytest.raises(
        DeviceError, match=r"6 models of GPU.*CUDA_DEVICE_ORDER=PCI_BUS_ID, or name the device"
    ):
        resolve("0", MIXED, environ)
    with pytest.raises(DeviceError, match="6 models"):
        resolve("0", MIXED, {**environ, "CUDA_DEVICE_ORDER": "FASTEST_FIRST"})
    first = UUIDS[int((text or "0")[0])]
    assert resolve("0", MIXED, {**environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}) == first


def test_uuids_in_the_variable_need_no_order() -> None:
    assert resolve("1", MIXED, {"CUDA_VISIBLE_DEVICES": "GPU-e,GPU-b"}) == UUIDS[1]


def test_a_uuid_is_meant_whatever_cuda_sees() -> None:
    environ = {"CUDA_VISIBLE_DEVICES": ""}
    assert resolve(UUIDS[3], MIXED, environ) == UUIDS[3]
    assert resolve("GPU-c", MIXED, environ) == UUIDS[2]
    assert resolve(MIG, MIXED, environ) == MIG
    with pytest.raises(DeviceError, match="0 GPUs have a UUID that begins with 'GPU-7'; there are GPU-aaaa"):
        resolve("GPU-7", MIXED, environ)
    with pytest.raises(DeviceError, match="6 GPUs have a UUID"):
        resolve("GPU-", MIXED, environ)


def test_a_silent_board_makes_numbers_uncertain() -> None:
    boards = [SAME[0], ListedBoard(uuid=None, name=None), SAME[2]]
    with pytest.raises(DeviceError, match=r"1 of 3 GPUs do not answer.*by its UUID: GPU-aaaaaaaa"):
        resolve("0", boards, {})
    assert resolve("GPU-c", boards, {}) == UUIDS[2]


@pytest.mark.parametrize("selector", ["", "gpu0", "-1", "cuda:0", "²"])
def test_other_words_are_refused_with_what_there_is(selector: str) -> None:
    with pytest.raises(DeviceError, match="give auto, a CUDA ordinal such as 0, or GPU-aaaaaaaa"):
        resolve(selector, SAME, {})


def test_a_driver_without_boards_is_said() -> None:
    with pytest.raises(DeviceError, match=r"sees no GPU$"):
        resolve("auto", [], {})


def start_torch(monkeypatch: pytest.MonkeyPatch, uuids: list[str | None], current: int = 0) -> None:
    """A torch that has started CUDA; its UUIDs come without a prefix."""
    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        current_device=lambda: current,
        device_count=lambda: len(uuids),
        get_device_properties=lambda i: SimpleNamespace(**({} if uuids[i] is None else {"uuid": uuids[i]})),
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))


def test_what_torch_started_with_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    start_torch(monkeypatch, [UUIDS[5][4:], UUIDS[2][4:]], current=1)
    changed_since = {"CUDA_VISIBLE_DEVICES": "0"}
    assert resolve("0", MIXED, changed_since) == UUIDS[5]
    assert resolve("auto", MIXED, changed_since) == UUIDS[2]
    with pytest.raises(DeviceError, match=r"CUDA sees 2 GPU\(s\)"):
        resolve("2", MIXED, changed_since)


def test_torch_names_slices_by_their_own_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    start_torch(monkeypatch, [MIG[4:]])
    assert resolve("0", SAME, {}) == MIG


def test_an_old_torch_or_one_without_cuda_running_leaves_it_to_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start_torch(monkeypatch, [None])
    assert resolve("0", SAME, {"CUDA_VISIBLE_DEVICES": "3"}) == UUIDS[3]
    idle = SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", idle)
    assert resolve("0", SAME, {"CUDA_VISIBLE_DEVICES": "3"}) == UUIDS[3]
