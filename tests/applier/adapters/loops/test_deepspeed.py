"""Real DeepSpeed on CPU over gloo."""

from collections import Counter

from energyopt.planner.schedules.one_f_one_b import build_1f1b
from energyopt.schemas.ops import OpKind, Schedule

MODULE = "deepspeed.runtime.pipe.engine"
LETTERS = {OpKind.FORWARD: "F", OpKind.BACKWARD: "B"}
CHUNKED = 2 * 2 * 4  # operations of DualPipeV on one rank: directions, chunks, microbatches


def pipelined(schedule: Schedule, stage: int) -> str:
    ops = " ".join(f"{LETTERS[op.kind]}{op.microbatch} ." for op in schedule.orders[stage])
    return f"({schedule.microbatches} {ops} S0 . O0 . )"


def test_the_engines_tell_what_they_run(run_jobs, whole) -> None:
    jobs = run_jobs(
        "deepspeed_job.py",
        [MODULE],
        {
            "pipeline": "2 --microbatches 5 --iterations 2 --evaluate-every 1",
            "dualpipev": "2 --microbatches 4 --iterations 2 --engine dualpipev",
            "plain": "2 --microbatches 2 --iterations 2 --engine plain --evaluate-every 1",
        },
    )
    schedule = build_1f1b(2, 5, 1)
    expected = [f"{pipelined(schedule, stage)} {{ }}" for stage in (0, 1)]
    assert jobs["pipeline"].words == [f"{one} {one}" for one in expected]
    assert jobs["plain"].words == 2 * [f"{whole(2)} {whole(2)}"]
    check_facts(jobs["pipeline"].facts, schedule)
    check_dualpipev(jobs["dualpipev"])
    assert [facts["stages"] for facts in jobs["plain"].facts] == [1, 1]


def check_facts(facts, schedule: Schedule) -> None:
    for stage, one in enumerate(facts):
        assert (one["stage"], one["stages"], one["rank"], one["world_size"]) == (stage, 2, stage, 2)
        assert (one["schedule"], one["microbatches"], one["chunks"]) == ("1f1b", 5, 1)
        assert (one["tensor_parallel"], one["data_parallel"], one["device_ordinal"]) == (1, 1, stage)
        order = [(op["kind"], op["chunk"], op["microbatch"]) for op in one["order"]]
        assert order == [(op.kind, op.chunk, op.microbatch) for op in schedule.orders[stage]]
        assert one["framework"].startswith("deepspeed 0.")


def check_dualpipev(job) -> None:
    """Every rank holds two chunks; the order told is the one listed beforehand, each operation once."""
    for words, facts in zip(job.words, job.facts, strict=True):
        listed = [
            ("c1" if op["chunk"] else "") + f"{LETTERS[op['kind']]}{op['microbatch']}"
            for op in facts["order"]
        ]
        iteration = f"(4 {' '.join(f'{op} .' for op in listed)} S0 . O0 . )"
        assert words == f"{iteration} {iteration}"
        assert len(listed) == CHUNKED and set(Counter(listed).values()) == {1}
        assert (facts["chunks"], facts["schedule"]) == (2, None)
