"""What the user wants, as the environment carries it."""

from pathlib import Path

import pytest

from energyopt.applier.runtime.settings import Mode, Settings, from_environment
from energyopt.schemas.errors import RequestError


def test_nothing_is_set() -> None:
    assert from_environment({}) == Settings()
    assert from_environment({"ENERGYOPT_PLAN": "", "ENERGYOPT_SLOWDOWN": ""}) == Settings()


def test_there_and_back() -> None:
    settings = Settings(
        plan=Path("/a/plan.json"),
        mode=Mode.OBSERVE,
        telemetry=Path("/a/tele"),
        sample_every=3,
        device="nvml:GPU-1",
        slowdown=1.1,
        slowdown_file=Path("/a/slow"),
        switch_latency_s=0.0125,
    )
    assert from_environment(settings.to_environment()) == settings
    assert from_environment(Settings().to_environment()) == Settings()


def test_paths_hold_wherever_a_rank_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = Settings(plan=Path("plan.json"), telemetry=Path("tele")).to_environment()
    assert (found["ENERGYOPT_PLAN"], found["ENERGYOPT_TELEMETRY"]) == (
        str(tmp_path / "plan.json"),
        str(tmp_path / "tele"),
    )


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("MODE", ("fast", "APPLY", "1")),
        ("SAMPLE_EVERY", ("0", "-1", "1.5", "often", "9" * 5000, "\u0661", " 1")),
        ("SLOWDOWN", ("0.99", "-1", "nan", "inf", "fast")),
        ("SITE_LOCK_MHZ", ("1200", "1200:210", "a:b")),
        ("DEVICE", ("sim:a100-sxm4-80gb",)),
        ("SWITCH_LATENCY_S", ("-0.001", "nan", "inf", "5ms")),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(name: str, values: tuple[str, ...]) -> None:
    for value in values:
        with pytest.raises(RequestError, match=f"ENERGYOPT_{name} is "):
            from_environment({f"ENERGYOPT_{name}": value})
