"""How far launches run ahead of the GPU: where that is far, a clock that follows the launches comes too early.

The helper follows the training thread. Where that thread waits for the GPU (for transfers, or for the loss), what
it launches runs at once. Where it does not, all of an iteration's clocks go out while its first operations run.
CUDA events tell: each timed iteration is compared with its launches.
"""

from collections import deque
from collections.abc import Sequence

from energyopt.applier.runtime.channel import ANCHOR, BEGIN, OP_TIME, STEP, UNKNOWN, Record

_MOST = 0.2  # of what the GPU takes for an iteration that its last launch may be ahead
_LEAST_NS = 5_000_000  # below that, clocks take as long to land
_OF_THE_LAST, _ENOUGH = 3, 2
_REMEMBERED = 8  # iterations whose times may still come


class LaunchLead:
    """Compares launches with the GPU's own times; `complaint` says if they are too far ahead."""

    def __init__(self) -> None:
        self._launched: deque[tuple[int, dict[int, int]]] = deque(maxlen=_REMEMBERED)
        self._ops: list[tuple[int, int]] = []  # position and start of the list that is being read
        self._anchor_ns: int | None = None
        self._found: deque[tuple[int, int] | None] = deque(maxlen=_OF_THE_LAST)

    def feed(self, record: Record) -> None:
        """Take in what the training thread wrote."""
        if record.kind == STEP:
            self._launched.append((record.value >> 1, {}))
        elif record.kind == BEGIN:
            if self._launched:
                self._launched[-1][1].setdefault(record.value, record.first)
        elif record.kind == OP_TIME:
            self._op_time(record)

    @property
    def complaint(self) -> str | None:
        """Why clocks cannot be told in time, after two timed iterations of the last three; None where they can."""
        ahead = [one for one in self._found if one is not None]
        if len(ahead) < _ENOUGH:
            return None
        lead_ns, span_ns = ahead[-1]
        return (
            f"launches run {lead_ns / 1e6:.0f} ms ahead of the GPU over an iteration of {span_ns / 1e6:.0f} ms, "
            "so a clock cannot be told in time; it can with a schedule that waits for its transfers before it "
            "launches what needs them (CUDA_LAUNCH_BLOCKING would slow training down)"
        )

    def _op_time(self, record: Record) -> None:
        if record.value == ANCHOR:
            self._anchor_ns = record.first
        elif record.value != UNKNOWN:
            self._ops.append((record.value, record.first))
        else:
            launched = next((begun for number, begun in self._launched if number == record.first), {})
            self._judge(launched, self._ops, self._anchor_ns)
            self._ops, self._anchor_ns = [], None

    def _judge(self, launched: dict[int, int], ops: Sequence[tuple[int, int]], anchor_ns: int | None) -> None:
        """Where the GPU was when the last operation was launched: it had at least `lead_ns` to go.

        `anchor_ns` is the earliest that the first operation can have started.
        """
        if len(ops) < 2 or ops[0][0] not in launched or ops[-1][0] not in launched:
            return
        first_ns = launched[ops[0][0]] if anchor_ns is None else anchor_ns
        span_ns = ops[-1][1] - ops[0][1]
        lead_ns = first_ns + span_ns - launched[ops[-1][0]]
        self._found.append((lead_ns, span_ns) if lead_ns > max(_MOST * span_ns, _LEAST_NS) else None)
