"""`python -m infra.values`: write every chart's schema and default values from the models, and what is made beside.

With `--check` nothing is written: the names of files that differ are printed, and the exit code is 1.
"""

from __future__ import annotations

import sys
from pathlib import Path

from infra.values.generate import CHARTS, generate


def main(argv: list[str]) -> int:
    """Write the files, or with `--check` compare them."""
    check = "--check" in argv
    differ = []
    for path, text in generate(CHARTS).items():
        if path.is_file() and path.read_text() == text:
            continue
        differ.append(path)
        if not check:
            path.write_text(text)
    shown = (str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path) for path in differ)
    sys.stdout.write("".join(f"{'differs' if check else 'wrote'}: {path}\n" for path in shown))
    return 1 if check and differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
