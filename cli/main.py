"""The entry point: the commands, and the one place where errors become text and exit codes.

Exit codes: 0 fine, 1 the comparison or check failed, 2 the input or the request cannot be served, 3 a defect of
ours, 130 interrupted.
"""

import errno
import os
import signal
import sys
import traceback
from importlib import import_module
from typing import Any

import typer

from energyopt import __version__
from energyopt.cli import output
from energyopt.schemas.errors import EnergyoptError

DEFECT = 3
INTERRUPTED = 130
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
COMMANDS = (
    "doctor",
    "profile",
    "merge",
    "import_",
    "plan",
    "apply",
    "run",
    "verify",
    "calibrate",
    "diff",
    "show",
)

app = typer.Typer(
    name="energyopt",
    help="Lower the energy of large-model training without slowing it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"energyopt {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    del version


for _name in COMMANDS:
    import_module(f"energyopt.cli.{_name}").register(app)


def run() -> None:
    """Run the command line of this process."""
    output.prepare_streams()
    for one in (
        signal.SIGTERM,
        signal.SIGHUP,
    ):  # a batch system's stop, a closed terminal: they clean up like Ctrl-C
        if signal.getsignal(one) is not signal.SIG_IGN:  # nohup
            signal.signal(one, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))


def main(arguments: list[str]) -> int:
    """Run one command; return the exit code."""
    try:
        code = app(args=arguments, prog_name="energyopt", standalone_mode=False)
        if code == INTERRUPTED:  # how newer versions of the parser report Ctrl-C; older ones raise
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except EnergyoptError as error:
        return _complain(f"energyopt: {error}", 2)
    except (KeyboardInterrupt, typer.Abort):
        return _complain("energyopt: interrupted; earlier output files are as they were", INTERRUPTED)
    except SystemExit:  # the parser's answer to a reader of the help text that has gone away
        output.discard(sys.stdout)
        return 0
    except Exception as error:
        return _unexpected(error)


def _unexpected(error: Exception) -> int:
    if hasattr(error, "exit_code") and hasattr(error, "show"):  # a usage error found by the parser
        return _usage(error)
    if isinstance(error, OSError) and error.errno in NO_SPACE:  # the parser was printing a help text
        output.discard(sys.stdout)
        return _complain(f"energyopt: cannot write: {error.strerror}", 2)
    if os.environ.get("ENERGYOPT_TRACEBACK"):
        output.say(traceback.format_exc())
    text = f"energyopt: a defect of ours: {type(error).__name__}: {error}"
    return _complain(f"{text}\nplease report it; ENERGYOPT_TRACEBACK=1 shows where it arose", DEFECT)


def _usage(error: Any) -> int:
    try:
        error.show()
    except OSError:  # nobody can read it; the exit code still tells
        output.discard(sys.stderr)
    return int(error.exit_code)


def _complain(text: str, code: int) -> int:
    output.say(text)
    return code
