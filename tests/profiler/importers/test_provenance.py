import pytest

from energyopt.profiler.importers.provenance import check_device_name, parse_workload, printable
from energyopt.schemas.errors import EnergyoptError


def test_a_workload_has_texts_and_numbers() -> None:
    told = ["model=gpt3 = big", "tp=8", "cp=1", "microbatch_size=4", "sequence_length=2048", " dtype = bf16 "]
    assert parse_workload(told) == {
        "model": "gpt3 = big",
        "tp": 8,
        "cp": 1,
        "microbatch_size": 4,
        "sequence_length": 2048,
        "dtype": "bf16",
    }


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        (["tp"], "'tp' is not KEY=VALUE, such as tp=8"),
        (["pp=8"], "no key 'pp'; known are model, tp, cp, microbatch_size, sequence_length, dtype"),
        (["=8"], "no key ''"),
        (["tp=8", "tp=4"], "gives tp twice: 8 and '4'"),
        (["tp=0"], "tp must be a whole number from 1, not '0'"),
        (["cp=1.0"], "cp must be a whole number"),
        (["sequence_length=1_0"], "sequence_length must be a whole number"),
        (["microbatch_size="], "microbatch_size must be a whole number from 1, not ''"),
        (["tp=" + "9" * 400], "tp must be a whole number"),
        (["model="], "model must be printable text, not ''"),
        (["dtype=b\udcff"], r"dtype must be printable text, not 'b\\udcff'"),
    ],
)
def test_workloads_that_cannot_be(told: list[str], complaint: str) -> None:
    with pytest.raises(EnergyoptError, match=complaint) as caught:
        parse_workload(told)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "  ", "A100\udcff", "A\n100", "\x1b[31mA100", "A\x00", "A\u202e100"])
def test_names_that_no_gpu_has(name: str) -> None:
    with pytest.raises(EnergyoptError, match="the name of the GPU") as caught:
        check_device_name(name)
    assert str(caught.value).isprintable()


def test_names_that_gpus_have() -> None:
    for name in ("NVIDIA A100-SXM4-80GB", "Grafikkarte für β"):
        check_device_name(name)
        assert printable(name) == name
