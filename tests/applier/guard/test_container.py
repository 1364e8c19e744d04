"""Mounts as proc_pid_mountinfo(5) shows them: docker's overlay, a volume, a home of the host, a tmpfs."""

from pathlib import Path

import pytest

from energyopt.applier.guard import container
from energyopt.applier.guard.container import fleeting_state_folder, in_container

LAYER = "401 378 0:47 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/a:/b,upperdir=/c,workdir=/d\n"
PROC = "402 401 0:50 / /proc rw,nosuid - proc proc rw\n"
VOLUME = "410 401 8:1 /srv/state /root/.local/state rw,relatime - ext4 /dev/sda1 rw\n"
HOME = "411 401 0:52 /home/me /home/me\\040too rw shared:3 - nfs4 server:/home rw\n"
MEMORY = "412 401 0:53 / /root rw - tmpfs tmpfs rw\n"
DISK = "29 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
DOCKER, ROOT = "12:memory:/docker/0123456789ab\n", "0::/\n"


@pytest.fixture(autouse=True)
def _nothing_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(container, "_MARKS", (tmp_path / ".dockerenv",))
    monkeypatch.setattr(container, "_MOUNTS", tmp_path / "mountinfo")
    monkeypatch.setattr(container, "_CGROUPS", tmp_path / "cgroup")
    for name in ("container", "ENERGYOPT_STATE_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/root")


def _machine(folder: Path, mounts: str, cgroup: str = DOCKER) -> None:
    (folder / "mountinfo").write_text(mounts)
    (folder / "cgroup").write_text(cgroup)


def test_what_tells_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not in_container()
    for cgroup in ("0::/kubepods.slice/x\n", DOCKER, "0::/machine.slice/libpod-1.scope\n"):
        _machine(tmp_path, DISK, cgroup)
        assert in_container()
    _machine(tmp_path, DISK, ROOT)
    assert not in_container()
    with monkeypatch.context() as patch:
        patch.setenv("container", "podman")
        assert in_container()
    (tmp_path / ".dockerenv").touch()
    assert in_container()


@pytest.mark.parametrize(
    ("mounts", "home", "fleeting"),
    [
        (LAYER + PROC, "/root", True),
        (LAYER + PROC + VOLUME, "/root", False),
        (LAYER + VOLUME + HOME, "/home/me too", False),
        (LAYER + VOLUME + HOME, "/home/me", True),
        (LAYER + MEMORY, "/root", True),
        (LAYER + MEMORY + VOLUME, "/root", False),
        (DISK, "/root", False),
        ("", "/root", False),
        ("nonsense\n" + LAYER, "/root", True),
    ],
)
def test_where_the_journal_goes_with_the_container(
    mounts: str, home: str, fleeting: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _machine(tmp_path, mounts)
    monkeypatch.setenv("HOME", home)
    expected = Path(home) / ".local/state/energyopt"
    assert fleeting_state_folder() == (expected if fleeting else None)


def test_outside_a_container_and_where_the_user_chose_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _machine(tmp_path, LAYER, ROOT)  # a machine that was started over the network has such a root as well
    assert fleeting_state_folder() is None
    _machine(tmp_path, LAYER)
    assert fleeting_state_folder() is not None
    monkeypatch.setenv("ENERGYOPT_STATE_DIR", "/state")
    assert fleeting_state_folder() is None
