from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from energyopt.planner.frontier import plan_frontier
from energyopt.planner.schedules.registry import build_schedule
from energyopt.profiler.importers.interface import ImportedProfile
from energyopt.profiler.importers.lowtime import read_lowtime_csv
from energyopt.schemas.errors import FileFormatError, ProfileError
from energyopt.schemas.ops import OpKind
from energyopt.schemas.pipeline import Pipeline

HEADER = "stage,instruction,frequency,time,energy\n"
GRID = """\
0,forward,1410,0.05,20
0,backward,1410,0.10,44
0,forward,1200,0.06,18
0,backward,1200,0.12,40
1,forward,1410,0.05,20
1,backward,1410,0.10,44
1,forward,1200,0.06,18
1,backward,1200,0.12,40
"""
RANKED = """\
stage,instruction,frequency,time,energy,rank
0,forward,1410,0.05,20,0
0,forward,1410,0.07,22,1
1,forward,1410,0.06,18,2
1,forward,1410,0.05,24,3
"""

Read = Callable[..., ImportedProfile]


def costs(imported: ImportedProfile) -> dict[tuple[int | None, str, int], tuple[float, float]]:
    return {(r.stage, r.op, r.sm_clock_mhz): (r.time_s, r.energy_j) for r in imported.profile.rows}


def test_peers_are_aggregated(read: Read) -> None:
    imported = read(RANKED)
    found = costs(imported)
    # the slower of 0.05 and 0.07 s; (20 + 22) / 2 J, and half of 80 W for the 0.02 s that the faster one waits
    assert found[0, "forward", 1410] == (0.07, pytest.approx(21.8, rel=1e-12))
    assert found[1, "forward", 1410] == (
        0.06,
        pytest.approx(21.4, rel=1e-12),
    )  # (18 + 24) / 2 + 80 x 0.01 / 2
    assert imported.profile.metadata.gpus_per_stage == 2
    assert {one.peers for one in imported.coverage} == {2}


def test_a_peer_that_waits_for_a_slower_one_is_paid_for(read: Read) -> None:
    """Rank 0 draws 200 J in 1 s and waits 1 s at 100 W, rank 1 draws 400 J in 2 s: 700 J for each of two ops."""
    text = "rank," + HEADER
    text += "".join(f"0,0,{op},1410,1,200\n1,0,{op},1410,2,400\n" for op in ("forward", "backward"))
    profile = read(text, wait_power_w=100.0).profile
    assert {(row.time_s, row.energy_j) for row in profile.rows} == {(2.0, 350.0)}
    pipeline = Pipeline(stages=1, microbatches=1)
    frontier = plan_frontier(profile, pipeline, build_schedule(pipeline), points=4)
    assert frontier.gpus == 2
    for point in frontier.points:
        assert point.iteration_time_s == pytest.approx(4.0, rel=1e-9)
        assert point.energy_j == pytest.approx(1400.0, rel=1e-9)
        assert point.lower_bound_j == pytest.approx(1400.0, rel=1e-6)


def test_several_rank_columns_name_one_peer(read: Read) -> None:
    text = "PP_rank,tp_rank,dp_rank," + HEADER
    text += "".join(f"0,{tp},{dp},0,forward,1410,0.1,{20 + tp + 2 * dp}\n" for tp in (0, 1) for dp in (0, 1))
    imported = read(text)
    assert imported.profile.metadata.gpus_per_stage == 4
    assert costs(imported)[0, "forward", 1410] == (0.1, 21.5)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            RANKED + "1,forward,1410,0.06,19,2\n",
            "lines 4 and 6 both measure forward of stage 1 at 1410 MHz on rank 2",
        ),
        (HEADER + GRID + "0,FORWARD,1410.0,0.05,20\n", "lines 2 and 10 .* no column tells ranks"),
        (
            "pp_rank," + HEADER + "0,0,forward,1410,0.1,20\n0,0,forward,1410,0.1,21\n",
            "lines 2 and 3 both measure",
        ),
    ],
    ids=["same rank", "no rank", "only pp_rank"],
)
def test_unexplained_duplicates(read: Read, text: str, complaint: str) -> None:
    with pytest.raises(ProfileError, match=complaint):
        read(text)


def test_pp_rank_must_be_the_stage(read: Read) -> None:
    with pytest.raises(FileFormatError, match="line 2, column pp_rank: '1' is not the stage of this line, 0"):
        read("pp_rank," + HEADER + "1,0,forward,1410,0.1,20\n")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (HEADER + "1,forward,1410,0.1,30\n", "found 1 up to 1, and stage 0 is missing"),
        (HEADER + GRID + "9,forward,1410,0.1,30\n", "found 3 up to 9, and stage 2 is missing"),
        (HEADER + GRID + "2,forward,1410,0.1,30\n", "stage 2 has no backward"),
        (RANKED.replace("1,forward,1410,0.05,24,3\n", ""), "stage 1 has 1 GPUs and stage 0 has 2"),
    ],
    ids=["first stage", "hole", "instruction", "number of peers"],
)
@pytest.mark.parametrize("strict", [True, False])
def test_shapes_that_no_pipeline_has(read: Read, text: str, complaint: str, strict: bool) -> None:
    with pytest.raises(ProfileError, match=complaint):
        read(text, strict=strict)


def test_missing_clock(read: Read) -> None:
    text = HEADER + GRID.replace("1,backward,1200,0.12,40\n", "")
    gap = r"1 measurements are missing in 1 of 4 .*: backward of stage 1 at 1200 MHz"
    with pytest.raises(ProfileError, match=f"{gap}.*--allow-incomplete"):
        read(text)
    imported = read(text, strict=False)
    assert len(imported.profile.rows) == 7
    assert {(one.stage, one.op): one.missing_clocks_mhz for one in imported.coverage if one.missing} == {
        (1, OpKind.BACKWARD): (1200,)
    }
    assert len(imported.warnings) == 1
    assert "backward of stage 1 at 1200 MHz" in imported.warnings[0]


def test_many_missing_clocks_are_counted(read: Read) -> None:
    clocks = range(900, 1400, 15)
    text = HEADER + "".join(f"0,forward,{clock},0.1,30\n" for clock in clocks) + "1,forward,900,0.1,30\n"
    with pytest.raises(ProfileError, match=rf"{len(clocks) - 1} measurements .*and {len(clocks) - 6} more"):
        read(text)


def test_missing_peer(read: Read) -> None:
    text = RANKED + "0,forward,1200,0.08,19,0\n1,forward,1200,0.08,17,2\n1,forward,1200,0.09,18,3\n"
    with pytest.raises(ProfileError, match="forward of stage 0 at 1200 MHz on rank 1"):
        read(text)
    imported = read(text, strict=False)
    assert costs(imported)[0, "forward", 1200] == (0.08, 19.0)  # of the one peer that was measured
    assert imported.profile.metadata.gpus_per_stage == 2


@settings(max_examples=30, deadline=None)
@given(order=st.permutations([*RANKED.splitlines()[1:], "0,forward,1200,0.08,19.3,0"]))
def test_row_order_does_not_matter(tmp_path_factory: pytest.TempPathFactory, order: list[str]) -> None:
    path = tmp_path_factory.getbasetemp() / "order.csv"
    extra = ["0,forward,1200,0.03,17.1,1", "1,forward,1200,0.03,17.1,2", "1,forward,1200,0.03,17.7,3"]
    results = []
    for rows in (sorted(order) + extra, [*extra, *order]):
        path.write_text("\n".join([RANKED.splitlines()[0], *rows]))
        results.append(read_lowtime_csv(path, device_name="A100", wait_power_w=80.0))
    assert results[0] == results[1]
    assert results[0].profile.sha256() == results[1].profile.sha256()


CHUNKED = "chunk," + HEADER + "".join(
    f"{chunk},{stage},{op},1410,0.1,{20 + 10 * chunk + stage}\n"
    for stage in (0, 1)
    for chunk in (0, 1)
    for op in ("forward", "backward")
)  # fmt: skip


def test_chunks_are_told_apart(read: Read) -> None:
    imported = read(CHUNKED)
    found = {(row.stage, row.chunk, row.op): row.energy_j for row in imported.profile.rows}
    assert len(found) == 8
    assert (found[0, 1, "forward"], found[1, 0, "backward"], found[1, 1, "forward"]) == (30.0, 21.0, 31.0)
    assert [(one.stage, one.chunk) for one in imported.coverage][::2] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert imported.profile.metadata.gpus_per_stage == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (CHUNKED.replace("1,1,backward,1410,0.1,31\n", ""), "stage 1, chunk 1, has no backward, which other"),
        (
            CHUNKED + "2,0,forward,1410,0.1,30\n3,0,forward,1410,0.1,30\n".replace("2,0", "4,0"),
            "stage 0 has 0, 1, 3, 4, and chunk 2 is missing",
        ),
        (CHUNKED + "1,1,forward,1410,0.1,30\n", "both measure forward of stage 1, chunk 1 at 1410 MHz"),
    ],
    ids=["instruction", "hole", "twice"],
)
@pytest.mark.parametrize("strict", [True, False])
def test_chunks_that_no_pipeline_has(read: Read, text: str, complaint: str, strict: bool) -> None:
    with pytest.raises(ProfileError, match=complaint):
        read(text, strict=strict)


@pytest.mark.parametrize("chunk", ["-1", "x", "0.5", ""])
def test_a_chunk_is_a_whole_number(read: Read, chunk: str) -> None:
    with pytest.raises(FileFormatError, match="line 2, column chunk"):
        read("chunk," + HEADER + f"{chunk},0,forward,1410,0.1,30\n")


def test_a_stage_without_a_chunk_that_others_have_is_incomplete(read: Read) -> None:
    text = "".join(line for line in CHUNKED.splitlines(keepends=True) if not line.startswith("1,1"))
    with pytest.raises(
        ProfileError, match=r"nothing was measured of chunk 1 of stage 1, .*--allow-incomplete"
    ):
        read(text)
    assert "chunk 1 of stage 1" in read(text, strict=False).warnings[0]


def test_a_missing_clock_of_a_chunk_is_named(read: Read) -> None:
    text = CHUNKED + "".join(line.replace("1410", "1200") for line in CHUNKED.splitlines(keepends=True)[1:-1])
    with pytest.raises(ProfileError, match=r"1 measurements .*: backward of stage 1, chunk 1 at 1200 MHz"):
        read(text)


def test_not_every_chunk_runs_an_optimizer(read: Read) -> None:
    text = CHUNKED + "0,0,optimizer,1410,0.1,30\n0,1,optimizer,1410,0.1,30\n"
    assert len(read(text).profile.rows) == 10
    with pytest.raises(ProfileError, match="stage 1 has no optimizer, which other stages have"):
        read(text.replace("0,1,optimizer,1410,0.1,30\n", ""))
