"""Power of an iteration over time: of all GPUs and of each node, its peak, and plans that keep to a cap on it.

`over_time` adds up what all GPUs draw, `nodes` what those of each node do. `cap` finds plans whose peak is at most
what a `rule` says: `trials` judges plans, `mending` lowers them along `ladders` of options until they obey,
`thrift` leaves options of much power out. `floor` proves which caps no plan can meet.
"""

__all__ = ["cap", "floor", "ladders", "mending", "nodes", "over_time", "rule", "thrift", "trials"]
