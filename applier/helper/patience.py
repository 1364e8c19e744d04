"""How long the helper may wait before it looks at the training thread's records again: looking costs CPU time.

What a record says is acted on late by at most this. Where the next one is expected and its clock is asked for ahead
of it, only one that comes early needs looking for, and a tenth of the usual time is soon enough; so is a quarter of
what a change takes to land. Else, and after a long silence (evaluation, a checkpoint), it is a hundredth of that.
While the board is read all this holds whether clocks are set or not: readings of a run with a plan and of one
without must not differ in their timing.
"""

_LEAST_NS, _MOST_NS = 1_000_000, 50_000_000
_MOST_FOR_LEAD_NS = 5_000_000


def patience_ns(
    *, quiet_ns: int, span_ns: int | None, lead_ns: int, sets: bool, look_in_ns: int | None
) -> int:
    """The longest wait, ns.

    Args:
        quiet_ns: how long ago the last record was written or seen.
        span_ns: how long after it the next one is expected, where that is known.
        lead_ns: how long a change of clocks takes to land.
        sets: whether clocks are set; else records only have to be read before there are too many of them.
        look_in_ns: when the board is to be read next; None where it is not.
    """
    if not sets and look_in_ns is None:
        return _MOST_NS
    most_ns = _MOST_NS if look_in_ns is None else max(look_in_ns, _LEAST_NS)
    wait_ns = max(quiet_ns // 100, (span_ns or 0) // 10, min(lead_ns // 4, _MOST_FOR_LEAD_NS), _LEAST_NS)
    return min(wait_ns, most_ns)
