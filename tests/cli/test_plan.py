"""`energyopt plan`: the small job's best plan, worked out by hand in tests/conftest.py, and every refusal."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from energyopt.schemas.frontier import read_frontier
from energyopt.schemas.partitions import Execution, PartitionConfig
from energyopt.schemas.profile import Level, Profile, read_profile, write_profile

Energyopt = Callable[..., int]
SIZES = ("--stages", 2, "--microbatches", 2)
SLOW = PartitionConfig(execution=Execution.SEQUENTIAL, sm_clock_mhz=1000)


def test_the_small_job(
    energyopt: Energyopt, profile_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert energyopt("plan", profile_file, "-o", tmp_path / "f.parquet", *SIZES) == 0
    printed = capfd.readouterr()
    frontier = read_frontier(tmp_path / "f.parquet")
    assert frontier.max_clock.iteration_time_s == 9.0
    assert frontier.max_clock.energy_j == 4200.0
    in_time = next(point for point in frontier.points if "max_clock_time" in point.names)
    assert (in_time.iteration_time_s, in_time.energy_j) == (9.0, 3975.0)
    assert "wrote" in printed.err
    assert "lower-bound curve (0% done)" in printed.err
    title = "GPU [bold]x[/bold] (simulated), 2 stages x 2 microbatches, 1f1b, 2 GPUs: points\n"
    assert printed.out.startswith(title)
    assert "HiGHS" not in printed.out
    assert all(line == line.rstrip() for line in printed.out.splitlines())


def test_json(
    energyopt: Energyopt, profile_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert energyopt("plan", profile_file, "-o", tmp_path / "f.parquet", *SIZES, "--json") == 0
    found = json.loads(capfd.readouterr().out)
    assert found["gpus"] == 2
    assert {"fastest", "max_clock_time"} <= set(found["points"][0]["names"])


def test_a_pipeline_file_and_flags_that_override_it(
    energyopt: Energyopt, profile_file: Path, tmp_path: Path
) -> None:
    toml = tmp_path / "pipeline.toml"
    toml.write_text('stages = 2\nmicrobatches = 5\nschedule = "gpipe"\nfixed_time_s = 0.5\n')
    target = tmp_path / "f.parquet"
    assert energyopt("plan", profile_file, "-o", target, "--pipeline", toml, "--microbatches", 2) == 0
    pipeline = read_frontier(target).pipeline
    assert (pipeline.microbatches, pipeline.schedule, pipeline.fixed_time_s) == (2, "gpipe", 0.5)
    # GPipe takes (M + S - 1)(tf + tb) = 3 x 3 s at the highest clocks, plus the fixed time
    assert read_frontier(target).max_clock.iteration_time_s == pytest.approx(9.5, rel=1e-12)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--stages", 2), "how many microbatches? give --microbatches"),
        (("--microbatches", 2), "how many pipeline stages? give --stages"),
        ((*SIZES, "--schedule", "zb-v"), "unknown schedule 'zb-v': known are gpipe, 1f1b"),
        ((*SIZES, "--schedule", "zb-h1"), "no usable row for backward_input of stage 0"),
        ((*SIZES, "--chunks", 2), "chunks"),
        ((*SIZES, "--p2p-time-s", "nan"), "p2p_time_s must be a finite time"),
        ((*SIZES, "--p2p-time-s", "-1"), "p2p_time_s must be a finite time"),
        ((*SIZES, "--fixed-time-s", "inf"), "fixed_time_s must be a finite time"),
        ((*SIZES, "--p2p-time-s", "1e308"), "p2p_time_s must be at most 1e+06 s, not 1e+308"),
        ((*SIZES, "--fixed-time-s", "1e300"), "fixed_time_s must be at most 1e+06 s, not 1e+300"),
        ((*SIZES, "--data-parallel", 10**30), "data_parallel must be at most 1000000, not 1e+30"),
        ((*SIZES, "--points", 501), "--points"),
        ((*SIZES, "--pipeline", "none.toml"), "cannot read none.toml"),
        (("--stages", 0, "--microbatches", 2), "--stages"),
        ((*SIZES, "--points", 3), "--points"),
        ((*SIZES, "--speed", 3), "--speed"),
        ((*SIZES, "--max-switches", -1), "--max-switches needs a number of at least 0, not -1"),
        ((*SIZES, "--min-dwell-s", "nan"), "--min-dwell-s needs a finite time of at least 0 s, not nan"),
        ((*SIZES, "--min-dwell-s", "-0.5"), "--min-dwell-s needs a finite time of at least 0 s, not -0.5"),
    ],
)
def test_refusals_are_one_line_and_exit_2(
    energyopt: Energyopt,
    profile_file: Path,
    words: tuple[object, ...],
    expected: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    target = profile_file.with_name("f.parquet")
    target.write_bytes(b"earlier")
    assert energyopt("plan", profile_file, "-o", target, *words) == 2
    printed = capfd.readouterr()
    assert expected in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""
    assert target.read_bytes() == b"earlier"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "cannot read"),
        (b"", "not a Parquet file, or cut short"),
        (b"PAR1 half a file", "not a Parquet file, or cut short"),
        (b"stage,instruction\n", "not a Parquet file, or cut short"),
    ],
)
def test_what_is_no_profile(
    energyopt: Energyopt,
    tmp_path: Path,
    content: bytes | None,
    expected: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    source = tmp_path / "profile.parquet"
    if content is not None:
        source.write_bytes(content)
    assert energyopt("plan", source, "-o", tmp_path / "f.parquet", *SIZES) == 2
    printed = capfd.readouterr().err
    assert expected in printed
    assert printed.count("\n") == 1


def test_a_profile_cut_short(
    energyopt: Energyopt, profile_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    profile_file.write_bytes(profile_file.read_bytes()[:-200])
    assert energyopt("plan", profile_file, "-o", tmp_path / "f.parquet", *SIZES) == 2
    assert "cut short" in capfd.readouterr().err


def test_a_frontier_is_no_profile(
    energyopt: Energyopt, frontier_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert energyopt("plan", frontier_file, "-o", tmp_path / "f.parquet", *SIZES) == 2
    expected = "this is a file of format 'energyopt-frontier', not 'energyopt-profile'"
    assert expected in capfd.readouterr().err


def test_the_profile_is_never_written_over(
    energyopt: Energyopt, profile_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = profile_file.read_bytes()
    assert energyopt("plan", profile_file, "-o", profile_file, *SIZES) == 2
    assert "is an input of this command" in capfd.readouterr().err
    assert profile_file.read_bytes() == before


SCHEDULE = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"


def test_a_schedule_in_a_pipeline_file_lies_beside_it_and_is_never_written_over(
    energyopt: Energyopt, profile_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "order.csv").write_text(SCHEDULE)
    (folder / "pipeline.toml").write_text('schedule = "order.csv"\n')
    words = ("plan", profile_file, "--pipeline", folder / "pipeline.toml", "-o")
    assert energyopt(*words, tmp_path / "f.parquet") == 0
    assert read_frontier(tmp_path / "f.parquet").pipeline.schedule == "csv:order.csv"
    assert energyopt(*words, folder / "order.csv") == 2
    assert "order.csv is an input of this command" in capfd.readouterr().err
    assert (folder / "order.csv").read_text() == SCHEDULE


def test_fewer_points_than_asked_for_are_explained(
    energyopt: Energyopt, profile_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "f.parquet"
    assert energyopt("plan", profile_file, "-o", target, *SIZES, "--points", 400) == 0
    found = len(read_frontier(target).points)
    assert f"{found} points of 400 asked for: no more plans differ\n" in capfd.readouterr().err


def test_a_single_operation_below_the_wait_power(
    energyopt: Energyopt, small_profile: Profile, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = tuple(
        replace(row, energy_j=1.0) if (row.op, row.sm_clock_mhz) == ("forward", 1000) else row
        for row in small_profile.rows
    )
    write_profile(tmp_path / "p.parquet", replace(small_profile, rows=rows))
    assert energyopt("plan", tmp_path / "p.parquet", "-o", tmp_path / "f.parquet", *SIZES) == 0
    words = capfd.readouterr().err
    assert "draws less than the wait power of 100 W" in words and "more" not in words.split("wait power")[0]


def test_a_folder_that_does_not_exist(
    energyopt: Energyopt, profile_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert energyopt("plan", profile_file, "-o", tmp_path / "no" / "f.parquet", *SIZES) == 2
    assert "cannot write" in capfd.readouterr().err


def test_a_wait_power_above_what_operations_draw_is_worth_a_warning(
    energyopt: Energyopt, small_profile: Profile, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "p.parquet"
    write_profile(
        source, replace(small_profile, metadata=replace(small_profile.metadata, wait_power_w=250.0))
    )
    assert energyopt("plan", source, "-o", tmp_path / "f.parquet", *SIZES) == 0
    assert "draw less than the wait power of 250 W" in capfd.readouterr().err


def test_equal_input_gives_equal_bytes_whatever_the_order_of_rows_and_the_hash_seed(
    profile_file: Path, tmp_path: Path
) -> None:
    shuffled = tmp_path / "shuffled.parquet"
    profile = read_profile(profile_file)
    write_profile(shuffled, replace(profile, rows=profile.rows[::-1]))
    written = []
    for number, source in enumerate((profile_file, shuffled)):
        target = tmp_path / f"f{number}.parquet"
        command = [sys.executable, "-m", "energyopt.cli", "plan", source, "-o", target, *SIZES]
        environment = os.environ | {"PYTHONHASHSEED": str(number)}
        subprocess.run([str(word) for word in command], env=environment, check=True, capture_output=True)
        written.append(target.read_bytes())
    assert written[0] == written[1]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_the_earlier_file(
    profile_file: Path, tmp_path: Path, how: signal.Signals
) -> None:
    target = tmp_path / "f.parquet"
    target.write_bytes(b"earlier")
    command = ["plan", profile_file, "-o", target, "--stages", 8, "--microbatches", 96]
    process = subprocess.Popen(
        [sys.executable, "-m", "energyopt.cli", *(str(word) for word in command)],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "lower-bound curve" in process.stderr.readline()
    time.sleep(0.2)
    process.send_signal(how)
    _, words = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in words
    assert "Traceback" not in words
    assert target.read_bytes() == b"earlier"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.parquet", "profile.parquet"]


def test_no_clock_changes(
    energyopt: Energyopt, profile_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One clock per stage: stage 0 at 1400 MHz and stage 1 at 1000 MHz would take 10.25 s, all at 1400 MHz 9 s."""
    target = tmp_path / "f.parquet"
    assert energyopt("plan", profile_file, "-o", target, *SIZES, "--max-switches", 0) == 0
    frontier = read_frontier(target)
    in_time = next(point for point in frontier.points if "max_clock_time" in point.names)
    assert (in_time.iteration_time_s, in_time.energy_j) == (9.0, 4200.0)
    assert all(point.clock_switches == 0 for point in frontier.points)
    assert "a clock is kept" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "latency_s", "said", "switches"),
    [
        ((), 0.02, "a clock is kept for at least 0.02 s, the profile's clock switch latency\n", 2),
        ((), 4.0, "a clock is kept for at least 4 s, the profile's clock switch latency\n", 0),
        (("--min-dwell-s", 0), 4.0, "a clock is kept for at least 0 s, as asked for\n", 2),
    ],
)
def test_a_clock_is_kept_for_as_long_as_a_change_takes(
    energyopt: Energyopt,
    small_profile: Profile,
    tmp_path: Path,
    words: tuple[object, ...],
    latency_s: float,
    said: str,
    switches: int,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The free plan slows F1 and B0 of stage 0, from 1 s to 7 s: the 3 s from there to the next F1 are too few."""
    source, target = tmp_path / "p.parquet", tmp_path / "f.parquet"
    metadata = replace(small_profile.metadata, clock_switch_latency_s=latency_s)
    write_profile(source, replace(small_profile, metadata=metadata))
    assert energyopt("plan", source, "-o", target, *SIZES, *words) == 0
    assert said in capfd.readouterr().err
    point = next(one for one in read_frontier(target).points if "max_clock_time" in one.names)
    assert point.clock_switches == switches


def test_the_tradeoff_is_shown_beside_the_points(
    energyopt: Energyopt, profile_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("plan", profile_file, "-o", tmp_path / "f.parquet", *SIZES, "--switch-tradeoff")
    assert energyopt(*words) == 0
    printed = capfd.readouterr().out
    assert "clock changes at 1.05 x the max-clock time (2 GPUs)" in printed
    assert "one clock per stage" in printed
    assert energyopt(*words, "--json") == 0
    found = json.loads(capfd.readouterr().out)
    assert {point["slowdown"] for point in found["switch_tradeoff"]["points"]} == {1.0, 1.02, 1.05, 1.1}


@pytest.fixture
def layers_file(small_profile: Profile, tmp_path: Path) -> Path:
    """The small profile's operations, each in two partitions that are run through twice."""
    rows = [
        replace(
            row,
            level=Level.PARTITION,
            partition=name,
            count=2,
            time_s=row.time_s * share,
            energy_j=row.energy_j * share * (0.9 if (name, row.sm_clock_mhz) == ("mlp", 1000) else 1.0),
        )
        for row in small_profile.rows
        for name, share in (("attention", 0.2), ("mlp", 0.3))
    ]
    path = tmp_path / "layers.parquet"
    write_profile(path, replace(small_profile, rows=tuple(rows)))
    return path


def test_partitions_may_run_at_different_clocks(
    energyopt: Energyopt, layers_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Only the MLP at 1000 MHz: a forward of 2 x 0.2 + 2 x 0.375 s, and four changes of 10 ms."""
    target = tmp_path / "f.parquet"
    words = ("plan", layers_file, "-o", target, *SIZES, "--mixed-clocks", "--switch-time-s", 0.01)
    assert energyopt(*words) == 0
    assert "HiGHS" not in capfd.readouterr().out
    frontier = read_frontier(target)
    assert (frontier.switch_time_s, frontier.switch_energy_j) == (0.01, 1.0)
    (mixed,) = [
        option
        for key, options in frontier.options.items()
        for option in options
        if key == (0, 0, "forward") and dict(option.partitions) == {"mlp": SLOW}
    ]
    assert mixed.sm_clock_mhz == 1400
    assert mixed.time_s == pytest.approx(2 * 0.2 + 2 * 0.375 + 4 * 0.01)
    assert mixed.energy_j == pytest.approx(2 * 60 + 2 * 0.9 * 75 + 4 * 1.0)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ("--mixed-clocks",),
            "what a clock change takes, which the profile does not say; give --switch-time-s",
        ),
        (("--switch-time-s", 0.01), "say something with --mixed-clocks alone"),
        (("--switch-energy-j", 1), "say something with --mixed-clocks alone"),
        (("--mixed-clocks", "--switch-time-s", "inf"), "--switch-time-s needs a finite time"),
        (
            ("--mixed-clocks", "--switch-time-s", 0.01, "--switch-energy-j", 0.9),
            "needs at least the 1 J that waiting for 0.01 s costs",
        ),
        (("--mixed-clocks", "--switch-time-s", 0.01, "--max-switches", 3), "which --max-switches and"),
        (("--mixed-clocks", "--switch-time-s", 0.01, "--switch-tradeoff"), "which --max-switches and"),
    ],
)
def test_mixed_clocks_that_cannot_be_are_refused(
    energyopt: Energyopt,
    layers_file: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    words: tuple[object, ...],
    problem: str,
) -> None:
    assert energyopt("plan", layers_file, "-o", tmp_path / "f.parquet", *SIZES, *words) == 2
    printed = capfd.readouterr().err
    assert problem in printed
    assert not (tmp_path / "f.parquet").exists()


def test_a_cap_on_peak_power(
    energyopt: Energyopt, profile_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Both stages draw 600 W together at 1400 MHz, 500 W if one is at 1000 MHz, and 400 W if both are."""
    target = tmp_path / "f.parquet"
    words = (*SIZES, "--data-parallel", 3, "--peak-power-cap-w", 450)
    assert energyopt("plan", profile_file, "-o", target, *words) == 0
    printed = capfd.readouterr().err
    assert "peak power is at most 450 W on 2 GPU(s); 3 replicas in step draw up to 3 times as much" in printed
    assert "no plan that keeps to that takes less than" in printed
    frontier = read_frontier(target)
    assert (frontier.peak_power_cap_w, frontier.peak_lasts_s) == (450.0, 0.0)
    assert all(point.peak_power_w == pytest.approx(400.0) for point in frontier.points)
    assert 9.0 < frontier.points[0].iteration_time_s < 11.25


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--peak-power-cap-w", 350), "no plan found keeps 2 GPU(s) at 350 W or less: the least peak found"),
        (("--peak-power-cap-w", 0), "--peak-power-cap-w needs a finite power above 0 W, not 0"),
        (("--peak-lasts-s", "nan"), "--peak-lasts-s needs a finite time of at least 0 s, not nan"),
        (("--peak-power-cap-w", 500, "--switch-tradeoff"), "--switch-tradeoff knows no --peak-power-cap-w"),
    ],
)
def test_caps_that_cannot_be_kept(
    energyopt: Energyopt,
    profile_file: Path,
    words: tuple[object, ...],
    expected: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    target = profile_file.with_name("f.parquet")
    assert energyopt("plan", profile_file, "-o", target, *SIZES, *words) == 2
    assert expected in capfd.readouterr().err
    assert not target.exists()


def test_peaks_that_last(energyopt: Energyopt, profile_file: Path, tmp_path: Path) -> None:
    """Without a cap, too: while B0 of stage 0 runs at 1000 MHz both draw 500 W, for 2.5 s; 400 W is the least."""
    target = tmp_path / "f.parquet"
    assert energyopt("plan", profile_file, "-o", target, *SIZES, "--peak-lasts-s", 5) == 0
    frontier = read_frontier(target)
    assert frontier.peak_lasts_s == 5.0
    assert frontier.points[0].peak_power_w == pytest.approx(400.0)
