"""Real Accelerate on CPU, alone and data-parallel over gloo."""


def test_a_loop_tells_what_it_runs(run_jobs, whole) -> None:
    jobs = run_jobs(
        "accelerate_job.py",
        ["accelerate.accelerator"],
        {
            "alone": "1 --iterations 2 --microbatches 3 --short 1 --evaluate-every 1 --copies",
            "failing": "1 --iterations 4 --fail-at 3",
            "compiled": "1 --compile --iterations 2",
            "parallel": "2 --iterations 2 --short 1",
            "one": "1 --iterations 2 --microbatches 1",
        },
    )
    short = "(3 F0 . B0 . ) O0 ."
    assert jobs["alone"].words == [f"{whole(3)} {{ }} {whole(3)} {{ }} {short}"]
    assert jobs["compiled"].words == [f"{whole(2)} {whole(2)}"]
    assert jobs["parallel"].words == 2 * [f"{whole(2)} {whole(2)} (2 F0 . B0 . ) O0 ."]
    assert jobs["one"].words == [f"{whole(1)} {whole(1)}"]
    check_failing(jobs["failing"].words[0], whole)
    check_facts(jobs["parallel"].facts)


def check_failing(words: str, whole) -> None:
    """The second iteration's backward fails, and its step with it: that iteration goes on for two batches more."""
    longer = "(2 F0 . B0 . F1 . B1 . F2 . B2 . F3 . B3 . ) O0 ."
    assert words == f"{whole(2)} {longer} (4 F0 . B0 . F1 . B1 . ) O0 ."


def check_facts(facts) -> None:
    for rank, one in enumerate(facts):
        assert (one["rank"], one["world_size"], one["device_ordinal"]) == (rank, 2, rank)
        assert (one["stage"], one["stages"], one["chunks"]) == (0, 1, 1)
        assert (one["schedule"], one["microbatches"], one["order"]) == ("1f1b", 2, None)
        assert one["framework"].startswith("accelerate 1.")


def test_models_are_left_as_they_are_and_loops_need_no_blocks(run_jobs, whole) -> None:
    """Scripted models take no hooks of Python's; what is told does not hang on them."""
    jobs = run_jobs(
        "accelerate_by_hand.py",
        ["accelerate.accelerator"],
        {
            "scripted": "1 --iterations 2 --script",
            "ahead": "1 --iterations 2 --ahead",
            "own": "1 --iterations 2 --own-batches",
            "mode": "1 --iterations 2 --in-evaluation-mode",
            "late": "1 --iterations 2 --late-training-mode",
        },
    )
    assert jobs["scripted"].words == [f"{whole(2)} {whole(2)}"]
    assert jobs["ahead"].words == [f"{whole(2)} {whole(2)}"]
    assert jobs["own"].words == [f"{whole(2)} {whole(2)} (2 F0"]  # the next forward begins after each step
    assert jobs["mode"].words == [f"{{ }} {whole(2)} {whole(2)}"]
    assert jobs["late"].words == [f"{{ }} {whole(2)} {whole(2)}"]
