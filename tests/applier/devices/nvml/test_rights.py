import os
from pathlib import Path

import pytest

from energyopt.applier.devices.nvml.rights import may_administer

CAPABILITIES = {  # of the effective set; CAP_SYS_ADMIN is bit 21 (linux/capability.h)
    "000001ffffffffff": True,  # root on the host
    "00000000a80425fb": False,  # root in a container as docker starts one
    "00000000a82425fb": True,  # the same with --cap-add SYS_ADMIN
    "0000000000000000": False,  # a user
}


@pytest.mark.parametrize(("effective", "may"), CAPABILITIES.items())
def test_the_capability_counts_and_not_the_user(tmp_path: Path, effective: str, may: bool) -> None:
    status = tmp_path / "status"
    status.write_text(f"Name:\tpython\nCapPrm:\t000001ffffffffff\nCapEff:\t{effective}\nCapBnd:\t0\n")
    assert may_administer(status) is may


@pytest.mark.parametrize(("user", "may"), [(0, True), (1000, False)])
def test_without_proc_root_is_assumed_to_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, may: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert may_administer(tmp_path / "none") is may
