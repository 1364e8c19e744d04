"""The real Trainer on CPU, alone and data-parallel over gloo; Accelerate, which it stands on, is hooked too."""


def test_the_trainer_tells_what_it_runs(run_jobs, whole) -> None:
    jobs = run_jobs(
        "trainer_job.py",
        ["accelerate.accelerator", "transformers.trainer"],
        {
            "alone": "1 --iterations 3 --short 1 --evaluate-every 2 --epochs 2",
            "own step": "1 --iterations 3 --own-step",
            "parallel": "2 --iterations 2",
        },
    )
    epoch = f"{whole(2)} {whole(2)} {{ }} {whole(2)} {whole(1)} {{ }}"
    assert jobs["alone"].words == [f"{epoch} {epoch}"]
    assert jobs["parallel"].words == 2 * [f"{whole(2)} {whole(2)}"]
    assert jobs["own step"].words == [f"{whole(2)} {whole(2)} {whole(2)}"]
    assert [facts["framework"].split()[0] for facts in jobs["parallel"].facts] == 2 * ["transformers"]
    assert [facts["rank"] for facts in jobs["parallel"].facts] == [0, 1]
    assert jobs["own step"].facts[0]["framework"].startswith("transformers ")
