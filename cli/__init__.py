"""The command line: parse, call the library, write, return an exit code."""

__all__ = ["main"]
