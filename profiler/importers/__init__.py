"""Readers of what other tools measured, one module per source format; each gives an `ImportedProfile`."""

__all__ = ["csvtable", "grid", "interface", "kareus", "lowtime", "provenance", "units"]
