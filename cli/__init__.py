"""The command line: parse, call the library, write, return an exit code."""

__all__ = [
    "apply",
    "calibrate",
    "diff",
    "doctor",
    "import_",
    "import_kareus",
    "main",
    "merge",
    "output",
    "pictures",
    "plan",
    "plan_options",
    "profile",
    "profile_options",
    "progress",
    "run",
    "show",
    "sweep",
    "targets",
    "verify",
]
