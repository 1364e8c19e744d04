import pytest

from energyopt.applier.kareus.boards import check_sms, sms_of
from energyopt.schemas.errors import FileFormatError
from energyopt.schemas.nodes import Node


@pytest.mark.parametrize(
    ("name", "sms"),
    [
        ("A100", 108),
        ("NVIDIA A100-SXM4-80GB", 108),
        ("a100_80gb", 108),
        ("NVIDIA A40", 84),
        ("Tesla V100-SXM2-32GB", 80),
        ("NVIDIA H100 80GB HBM3", 132),
        ("NVIDIA H200", 132),
        ("NVIDIA RTX A4000", None),
        ("NVIDIA A100X", None),
        ("NVIDIA GH200 480GB", None),
        ("GPU", None),
    ],
)
def test_names(name: str, sms: int | None) -> None:
    """By NVIDIA's datasheets; no longer name is taken for one of them."""
    assert sms_of(name) == sms
    assert sms_of(name, 17) == 17


def test_more_than_there_are() -> None:
    node = Node("f.py", "$[0][1]", "4-8-109-1024")
    with pytest.raises(FileFormatError, match=r"f.py: 109 SMs, but A100 has 108; .*--sms @ \$\[0\]\[1\]"):
        check_sms(node, 109, "A100", sms_of("A100"))
    check_sms(node, 108, "A100", 108)
    check_sms(node, 512, "GPU", None)
