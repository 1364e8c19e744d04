"""Boards that a plan does not fit, or that stop obeying: training runs on, they stand as found, and it is said."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Eventually = Callable[[Callable[[], bool]], None]
OneLine = Callable[..., None]

GPU_IS_LOST, NO_PERMISSION = 15, 4  # nvmlReturn_t
PR_CAPBSET_DROP, CAP_SYS_ADMIN = 24, 21  # linux/prctl.h, linux/capability.h


def test_a_run_that_nothing_happens_to(trainer: Any, tmp_path: Path) -> None:
    """What the others are compared with: the plan's clocks op by op, the safe one after the last, given back."""
    run = trainer.start(
        iterations=4, op_s=0.04, ENERGYOPT_TELEMETRY=str(tmp_path / "tele"), ENERGYOPT_SAMPLE_EVERY="2"
    )
    run.survived()
    assert run.said == []
    once = [1305, 900, 1200, 1005, 1395, 1305]
    seen = set(trainer.sets())
    assert seen == {1305, 900, 1200, 1005, 1395}
    assert trainer.sets()[:6] == once
    assert trainer.as_found()
    header, *lines = trainer.shard()
    assert header["applied"] is True
    assert [line["iteration"] for line in lines] == [0, 2]
    for line in lines:
        assert [op[0] for op in line["ops"]] == list(range(6))
        assert [op[3] for op in line["ops"]] == once
        assert line["time_s"] >= 6 * 0.04
        assert 80 * line["time_s"] < line["energy_j"] < 380 * line["time_s"] + 380 * 0.03
        assert 0 < line["overhead_s"] < line["time_s"]


def _other_gpu(trainer: Any) -> None:
    trainer.board.name = "NVIDIA H100 80GB HBM3"


def _other_clocks(trainer: Any) -> None:
    trainer.board.set_clocks([1410, 1395, 1305, 1005])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_other_gpu, ("the plan is for NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "plan for this one")),
        (
            _other_clocks,
            ("lacks 705, 810, 900, 1200 MHz", "1005 to 1410 MHz", "profile this GPU and plan again"),
        ),
    ],
)
def test_a_board_that_the_plan_does_not_fit(
    trainer: Any, one_line: OneLine, spoil: Callable[[Any], None], words: tuple[str, ...]
) -> None:
    spoil(trainer)
    run = trainer.start()
    run.survived()
    one_line(run, *words, "clocks are left alone")
    assert trainer.fake.calls() == []
    assert trainer.as_found()


def test_a_rank_without_rights(trainer: Any, one_line: OneLine, tmp_path: Path) -> None:
    """As in a container without SYS_ADMIN: known before anything is set. It is observed all the same."""
    trainer.board.application_restricted = 1
    drop = f"import ctypes; ctypes.CDLL(None).prctl({PR_CAPBSET_DROP}, {CAP_SYS_ADMIN}, 0, 0, 0)"
    run = trainer.start(before=drop, ENERGYOPT_TELEMETRY=str(tmp_path / "tele"), ENERGYOPT_SAMPLE_EVERY="1")
    run.survived()
    one_line(run, "clocks cannot be set", "SYS_ADMIN", "clocks are left alone")
    assert trainer.fake.calls() == []
    header, _report, *lines = trainer.shard()
    assert header["applied"] is False
    assert len(lines) == 5  # nobody knows when the last one ended
    assert all(line["alternative"] is None and line["energy_j"] > 0 for line in lines)


@pytest.mark.parametrize("after", [0, 7])
def test_a_set_that_is_refused(trainer: Any, one_line: OneLine, after: int) -> None:
    """The first, by a driver that says so only when asked; or one in mid-run, after the right was taken away."""
    trainer.board.fault("set_locked", code=NO_PERMISSION, after=after)
    run = trainer.start(op_s=0.02)
    run.survived()
    one_line(run, "nvmlDeviceSetGpuLockedClocks", "from here on its clocks are left alone")
    assert trainer.as_found()
    assert len(trainer.sets()) == after


def test_a_board_that_is_lost_in_mid_run(trainer: Any, tmp_path: Path, eventually: Eventually) -> None:
    """It cannot be given back before it is there again, which is said; the next run does it."""
    lost = tmp_path / "lost"
    wait = (
        f"if iteration == 3: open({str(lost)!r}, 'w').close()\n"
        f"while os.path.exists({str(lost)!r}): time.sleep(0.01)"
    )
    run = trainer.start(op_s=0.02, during=wait)
    eventually(lost.exists)
    trainer.board.fault("everything", code=GPU_IS_LOST)
    lost.unlink()
    run.survived()
    assert "from here on its clocks are left alone" in run.said[0]
    assert "clocks were not given back" in run.said[-1]
    assert "energyopt doctor --restore" in run.said[-1]
    assert len(run.said) <= 3
    trainer.board.heal()
    again = trainer.start(iterations=2)
    again.survived()
    assert again.said == []
    assert trainer.as_found()


def test_no_nvml(trainer: Any, one_line: OneLine, tmp_path: Path) -> None:
    """A file of that name that is no library hides one that the machine may have."""
    (tmp_path / "libnvidia-ml.so.1").write_text("nothing")
    run = trainer.start(LD_LIBRARY_PATH=str(tmp_path))
    run.survived()
    one_line(run, "libnvidia-ml.so.1", "clocks are left alone")


@pytest.mark.parametrize("delay_s", [0.02, 2.0])
def test_training_never_waits_for_the_driver(trainer: Any, delay_s: float) -> None:
    """A set takes 20 ms, or 2 s; all calls of a run together take less than one of the sets that went by.

    30 iterations of 7 changes each: those of 20 ms take 4 s one after the other.
    """
    trainer.board.set_delay_s = delay_s
    clocked = (
        "from energyopt.applier.runtime.session import Session\n"
        "spent = 0\n"
        "def timed(real):\n"
        "    def call(*a):\n"
        "        global spent; begun = time.monotonic(); found = real(*a); spent += time.monotonic() - begun\n"
        "        return found\n"
        "    return call\n"
        "for name in ('begin', 'end', 'start'): setattr(Session, name, timed(getattr(Session, name)))"
    )
    run = trainer.start(iterations=30, op_s=0.004, before=clocked, after="print('spent', spent)")
    spent_s = float(run.wait_for("spent"))
    run.survived()
    assert run.said == []
    assert spent_s < {0.02: 0.4, 2.0: 1.0}[delay_s]
    assert trainer.sets()
    assert trainer.as_found()
