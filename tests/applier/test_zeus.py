import ast
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from energyopt.applier.zeus import plan_from_zeus, read_zeus_list, zeus_text
from energyopt.schemas.errors import FileFormatError, RequestError
from energyopt.schemas.nodes import Node
from energyopt.schemas.ops import OpKind
from energyopt.schemas.plan import Plan, plan_from_json, plan_to_json

F, B = OpKind.FORWARD, OpKind.BACKWARD
KINDS = {"F": "forward", "B": "backward"}

# 3 stages, 4 microbatches, drawn from the definition of the schedules
ONE_F_ONE_B = ("FFFBFBBB", "FFBFBFBB", "FBFBFBFB")
GPIPE = ("FFFFBBBB",) * 3

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_text(text: str) -> Path:
        path = tmp_path / "freqs.py"
        path.write_text(text)
        return path

    return write_text


def listing(orders: tuple[str, ...], mhz: int = 1200) -> str:
    return repr([[(KINDS[letter], mhz) for letter in order] for order in orders])


def test_text_of_a_plan(small_plan: Plan) -> None:
    assert zeus_text(small_plan) == (
        "[\n"
        "[('forward', 1400), ('forward', 1000), ('backward', 1000), ('backward', 1400)],\n"
        "[('forward', 1400), ('backward', 1400), ('forward', 1400), ('backward', 1400)],\n"
        "]\n"
        "# predicted iteration time: 9.000000 s\n"
        "# predicted iteration energy: 3975.000 J on 2 GPUs\n"
    )


def test_text_without_a_prediction(small_plan: Plan) -> None:
    assert zeus_text(replace(small_plan, predicted=None)).endswith("]\n# nothing predicted; 2 GPUs\n")


def test_a_device_name_cannot_smuggle_lines_in(small_plan: Plan) -> None:
    named = replace(small_plan, device_name="x\n+ [__import__('os')]")
    assert zeus_text(named) == zeus_text(small_plan)


def test_what_a_plan_says_beyond_clocks_is_not_dropped_in_silence(small_plan: Plan) -> None:
    first, *others = small_plan.stages[0]
    cut = replace(small_plan, stages=((replace(first, nanobatches=2), *others), *small_plan.stages[1:]))
    with pytest.raises(RequestError, match=r"holds clocks alone, .* plan with --only clocks"):
        zeus_text(cut)


def test_plans_that_zeus_cannot_express(small_plan: Plan) -> None:
    chunked = replace(small_plan, pipeline=replace(small_plan.pipeline, chunks_per_stage=2))
    with pytest.raises(RequestError, match="one model chunk per stage, this plan has 2"):
        zeus_text(chunked)


@pytest.mark.parametrize("kind", [kind for kind in OpKind if kind not in (F, B)])
def test_operations_that_zeus_does_not_know(small_plan: Plan, kind: OpKind) -> None:
    first, *rest = small_plan.stages[1]
    changed = replace(small_plan, stages=(small_plan.stages[0], (replace(first, op=kind), *rest)))
    with pytest.raises(RequestError, match=f"Zeus knows forward and backward .* stage 1 .* runs {kind} "):
        zeus_text(changed)


def test_reading_what_zeus_writes(write: Write) -> None:
    path = write(
        "[\n[('forward', 1410), ('backward', 1200)],\n[('forward', 900), ('backward', 915)],\n]\n# T: 2\n"
    )
    assert read_zeus_list(path) == (((F, 1410), (B, 1200)), ((F, 900), (B, 915)))


def test_byte_order_mark_and_crlf(tmp_path: Path) -> None:
    path = tmp_path / "freqs.py"
    path.write_bytes(b"\xef\xbb\xbf[\r\n[['forward', 1410],\r\n['backward', 1200]]]\r\n# end\r\n")
    assert read_zeus_list(path) == (((F, 1410), (B, 1200)),)


def test_a_plan_survives_the_way_there_and_back(small_plan: Plan, write: Write) -> None:
    found = plan_from_zeus(write(zeus_text(small_plan)), device_name="A100")
    assert found.stages == small_plan.stages
    assert (found.pipeline, found.gpus) == (small_plan.pipeline, 2)
    assert (found.predicted, found.max_clock, found.best_single_clock) == (None, None, None)
    assert (found.device_name, found.device_kind, found.profile_sha256) == ("A100", "imported", None)


@pytest.mark.parametrize(
    ("orders", "schedule"),
    [
        (ONE_F_ONE_B, "1f1b"),
        (GPIPE, "gpipe"),
        (("FB",), "1f1b"),
        (("FFBB",), "gpipe"),
        (("FB", "FB", "FB"), "1f1b"),  # fewer microbatches than stages
        (("FFBB", "FFBB", "FBFB"), "1f1b"),
        (("FFFBFBBB", "FFBFBFBB", "FFBFBFBB"), "imported"),
        (("FFFFBBBB", "FFFFBBBB", "FBFBFBFB"), "imported"),
    ],
)
def test_schedules_are_recognised(write: Write, orders: tuple[str, ...], schedule: str) -> None:
    plan = plan_from_zeus(write(listing(orders)), device_name="A100")
    assert plan.pipeline.schedule == schedule
    assert (plan.pipeline.stages, plan.gpus) == (len(orders), len(orders))
    assert plan.pipeline.microbatches == orders[0].count("F")


def test_microbatches_are_counted_per_kind(write: Write) -> None:
    plan = plan_from_zeus(write(listing(ONE_F_ONE_B)), device_name="A100")
    assert [(op.op, op.microbatch) for op in plan.stages[0]] == [
        (F, 0), (F, 1), (F, 2), (B, 0), (F, 3), (B, 1), (B, 2), (B, 3),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", r"missing stages @ \$$"),
        ("[[('forward', 1)], []]", r"missing operations @ \$\[1\]"),
        ("[[('forward', 1410), ('backward',)]]", r"missing clock @ \$\[0\]\[1\]"),
        ("[[()]]", r"missing instruction and clock @ \$\[0\]\[0\]"),
        ("[[('forward', 1410, 3)]]", r"expected \(instruction, MHz\), found 3 values @ \$\[0\]\[0\]"),
        ("[('forward', 1410)]", r"expected an array @ \$\[0\]\[0\]"),
        ("('forward', 1410)", r"expected an array @ \$\[0\]"),
        ("{'a': 1}", r"expected an array @ \$$"),
        ("[[('recompute', 1410)]]", r"unknown instruction 'recompute'; Zeus knows .* @ \$\[0\]\[0\]\[0\]"),
        ("[[('backward_input', 1410)]]", r"unknown instruction 'backward_input'"),
        ("[[(3, 1410)]]", r"expected text, found 3 @ \$\[0\]\[0\]\[0\]"),
        ("[[('forward', '1410')]]", r"expected an integer, found '1410' @ \$\[0\]\[0\]\[1\]"),
        ("[[('forward', 1410.0)]]", r"expected an integer"),
        ("[[('forward', True)]]", r"expected an integer"),
        ("[[('forward', 0)]]", r"expected at least 1, found 0"),
        ("[[('forward', -5)]]", r"expected at least 1, found -5"),
        ("[[('forward', 1410000)]]", r"1410000 is not a clock in MHz @ \$\[0\]\[0\]\[1\]"),
        ("", "not a Python list, or cut short"),
        ("[[('forward', 1410), ('backw", r"not a Python list, or cut short: .*line 1"),
        ("[[('forward', 1410)],", "not a Python list, or cut short"),
        ("__import__('os').system('true')", "holds more than lists, tuples, texts and numbers"),
        ("[[('forward', 700 + 710)]]", "holds more than"),
        ("[x for x in [1]]", "holds more than"),
        ("{[]: 1}", "holds more than"),
        ("(" * 5000, "not a Python list, or cut short|holds more than"),
        ("-" * 200_000 + "1", "not a Python list, or cut short|holds more than"),
    ],
)  # fmt: skip
def test_faults_are_named_with_their_place(write: Write, text: str, complaint: str) -> None:
    with pytest.raises(FileFormatError, match=complaint) as caught:
        read_zeus_list(write(text))
    assert "freqs.py" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nothing_is_run(write: Write, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    with pytest.raises(FileFormatError):
        read_zeus_list(write(f"[[('forward', open({str(trap)!r}, 'w').write('x'))]]"))
    assert not trap.exists()


def test_huge_and_absent_files(tmp_path: Path) -> None:
    path = tmp_path / "freqs.py"
    with path.open("wb") as file:
        file.truncate(16 * 2**20 + 1)
    with pytest.raises(FileFormatError, match="16777217 bytes; a frequency plan has at most 16777216"):
        read_zeus_list(path)
    with pytest.raises(FileFormatError, match="cannot read"):
        read_zeus_list(tmp_path / "absent.py")


@pytest.mark.parametrize(
    ("orders", "complaint"),
    [
        (("FFB",), r"1 times backward, where the first stage has 2 times forward.* @ \$\[0\]"),
        (("FBFB", "FB"), r"1 times forward, where .* @ \$\[1\]"),
        (("FBFB", "FBFBFB"), r"3 times forward, where .* @ \$\[1\]"),
        (("BB",), r"0 times forward"),
        (("FBBF",), r"backward of microbatch 1 comes before its forward @ \$\[0\]\[2\]"),
    ],
)
def test_lists_that_are_no_pipeline(write: Write, orders: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(FileFormatError, match=complaint):
        plan_from_zeus(write(listing(orders)), device_name="A100")


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_plan_of_these_kinds_survives(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    stages = data.draw(st.integers(1, 4))
    microbatches = data.draw(st.integers(1, 5))
    clock = st.integers(210, 2100)
    listed = [
        [("forward", data.draw(clock)) for _ in range(microbatches)]
        + [("backward", data.draw(clock)) for _ in range(microbatches)]
        for _ in range(stages)
    ]
    path = tmp_path_factory.getbasetemp() / "any.py"
    path.write_text(repr(listed))
    plan = plan_from_zeus(path, device_name="A100")
    text = zeus_text(plan)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ast.literal_eval(text) == listed
    path.write_text(text)
    assert plan_from_zeus(path, device_name="A100") == plan


def test_an_imported_plan_has_a_file_form(write: Write) -> None:
    plan = plan_from_zeus(write(listing(GPIPE)), device_name="A100")
    assert plan_from_json(Node("plan.json", "$", plan_to_json(plan))) == plan
