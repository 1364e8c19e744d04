"""Real Lightning on CPU, alone and data-parallel over gloo, under both of its names."""


def test_fit_tells_what_it_runs(run_jobs, whole) -> None:
    jobs = run_jobs(
        "lightning_job.py",
        ["lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer"],
        {
            "alone": "1 --iterations 3 --short 1 --validate-every 3 --epochs 2",
            "skipping": "1 --iterations 2 --skip 1",
            "failing": "1 --iterations 1 --fail-at 1",
            "manual": "1 --iterations 3 --manual --package pytorch_lightning",
            "parallel": "2 --iterations 2",
        },
    )
    interrupted = "(2 F0 . B0 . { } F1 . B1 . ) O0 ."  # validated amid an iteration
    epoch = f"{whole(2)} {interrupted} {whole(2)} {{ }} {whole(1)}"
    assert jobs["alone"].words == [f"{{ }} {epoch} {epoch}"]
    assert jobs["skipping"].words == [f"(2 F0 . B0 . F1 . ) O0 . {whole(2)}"]
    assert jobs["failing"].words == [f"(2 F0 . B0 . F1 . ) {whole(2)}"]
    assert jobs["parallel"].words == 2 * [f"{whole(2)} {whole(2)}"]
    # Lightning does not know of manual accumulation; after the first optimizer step it is known
    assert jobs["manual"].words == [f"(1 F0 . B0 . ) (1 F0 . B0 . ) O0 . {whole(2)} {whole(2)}"]
    check_facts(jobs["parallel"].facts)
    assert jobs["manual"].facts[0]["framework"].startswith("pytorch-lightning 2.")


def check_facts(facts) -> None:
    for rank, one in enumerate(facts):
        assert (one["rank"], one["world_size"], one["device_ordinal"]) == (rank, 2, rank)
        assert (one["stage"], one["stages"], one["microbatches"], one["schedule"]) == (0, 1, 2, "1f1b")
        assert one["framework"].startswith("lightning 2.")
