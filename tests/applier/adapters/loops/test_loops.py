"""How operations of a training loop are told apart and numbered, whatever stands on whatever."""

import gc

import pytest

from energyopt.applier.adapters.loops import Loop, loop_facts


class Job:
    """A loop as one framework drives it."""

    def __init__(self, hooks, microbatches: int) -> None:
        self.loop = Loop()
        self.hooks = hooks
        self.microbatches = microbatches

    def forward(self) -> int:
        return self.loop.forward(self.hooks, self.facts, lambda: self.microbatches)

    def facts(self):
        return loop_facts("framework 1.0", self.microbatches)

    def run(self, words: str) -> None:
        """F, B and O run an operation whole, E evaluates."""
        for word in words.replace(" ", ""):
            if word == "E":
                with self.loop.evaluation(self.hooks, self.facts):
                    self.run("FB")
            else:
                begin = {"F": self.forward, "B": self.loop.backward, "O": self.loop.optimizer}[word]
                self.loop.end(begin())


@pytest.mark.parametrize(
    ("microbatches", "run", "told"),
    [
        (2, "FB FB O FB O", "(2 F0 . B0 . F1 . B1 . ) O0 . (2 F0 . B0 . ) O0 ."),
        (1, "FFB O", "(1 F0 . F0 . B0 . ) O0 ."),  # two forwards, one loss
        (1, "FBB O O FB", "(1 F0 . B0 . B0 . ) O0 . O0 . (1 F0 . B0 ."),  # two losses, two optimizers
        (2, "FB FB FB", "(2 F0 . B0 . F1 . B1 . ) (2 F0 . B0 ."),  # no optimizer step to be seen
        (1, "FBFBO FBFBO FBO FBFBO", "(1 F0 . B0 . ) (1 F0 . B0 . ) O0 . (2 F0 . B0 . F1 . B1 . ) O0 . "
         "(2 F0 . B0 . ) O0 . (1 F0 . B0 . F1 . B1 . ) O0 ."),  # more microbatches than the framework knows
        (2, "E FB E FB O E", "{ } (2 F0 . B0 . { } F1 . B1 . ) O0 . { }"),
        (2, "B O", ""),  # nothing before the first forward
    ],
)  # fmt: skip
def test_operations_are_numbered(recorder, microbatches: int, run: str, told: str) -> None:
    Job(recorder, microbatches).run(run)
    assert " ".join(recorder.words) == told


def test_stacked_frameworks_tell_once(recorder) -> None:
    """A Trainer's step holds a model's forward, Accelerate's backward, in it DeepSpeed's backward and step."""
    job = Job(recorder, 1)
    step = job.forward()
    job.loop.end(job.forward())  # the model's
    backward = job.loop.backward()
    job.loop.end(job.loop.backward())  # DeepSpeed's
    job.loop.end(job.loop.optimizer())
    job.loop.end(backward)
    job.loop.end(step)
    assert " ".join(recorder.words) == "(1 F0 . B0 . ) O0 ."


def test_recomputation_is_part_of_the_backward(recorder) -> None:
    job = Job(recorder, 1)
    job.run("F")
    token = job.loop.backward()
    job.loop.end(job.forward())
    job.loop.end(token)
    assert " ".join(recorder.words) == "(1 F0 . B0 ."


def test_stopping_ends_all_and_the_next_forward_begins_anew(recorder) -> None:
    job = Job(recorder, 2)
    job.forward()
    job.loop.stop()
    job.run("FB")
    assert " ".join(recorder.words) == "(2 F0 . ) (2 F0 . B0 ."


def test_a_framework_that_does_not_tell_its_microbatches(recorder) -> None:
    job = Job(recorder, 2)
    job.loop.end(job.loop.forward(recorder, job.facts, lambda: recorder.no_such_thing))
    assert recorder.words[0] == "(0"


def test_nothing_grows(recorder) -> None:
    """10,000 iterations with evaluations, failures amid an iteration, and repeats."""
    job = Job(recorder, 2)
    grown = []
    for _ in range(2):
        for number in range(5_000):
            job.run("FB FB O" if number % 7 else "FB F")
            if number % 100 == 0:
                job.run("E")
            recorder.words.clear()
        gc.collect()
        grown.append(len(gc.get_objects()))
    assert grown[1] - grown[0] < 50


def test_more_is_expected_amid_an_iteration(recorder) -> None:
    job = Job(recorder, 2)
    told = []
    for word in ("F", "B", "F", "B", "O"):
        job.run(word)
        told.append(job.loop.expects_more)
    assert told == [True, True, False, False, False]
