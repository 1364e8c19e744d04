"""Put the real `--help` texts into README.md, where `$ energyopt ... --help` stands in a console block.

Usage: make docs
"""

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
_BLOCK = re.compile(r"```console\n\$ energyopt (?P<words>[^\n]*--help)\n.*?```", re.DOTALL)


def help_block(words: str) -> str:
    """One command's help as a console block, at 80 columns."""
    command = [sys.executable, "-m", "energyopt.cli", *words.split()]
    environment = os.environ | {"COLUMNS": "80", "TERM": "dumb"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    text = "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())
    return f"```console\n$ energyopt {words}\n{text}\n```"


def main() -> None:
    """Rewrite the README in place."""
    text = README.read_text(encoding="utf-8")
    README.write_text(_BLOCK.sub(lambda match: help_block(match["words"]), text), encoding="utf-8")


if __name__ == "__main__":
    main()
