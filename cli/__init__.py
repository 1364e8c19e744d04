"""The command line: parse, call the library, write, return an exit code."""

__all__ = ["apply", "diff", "import_", "main", "output", "plan", "progress", "show", "targets"]
