"""The command line: parse, call the library, write, return an exit code."""

__all__ = [
    "apply",
    "diff",
    "doctor",
    "import_",
    "main",
    "merge",
    "output",
    "plan",
    "profile",
    "profile_options",
    "progress",
    "show",
    "targets",
]
