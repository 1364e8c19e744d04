"""What can be measured and set on this machine, and what to do about the rest: the facts behind `doctor`."""

__all__ = ["boards", "counter", "findings", "records", "report", "software"]
