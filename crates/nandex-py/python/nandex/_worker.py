"""A process that runs cells: a request in JSON on each line of stdin, its outcome on a line of stdout."""

from __future__ import annotations

import json
import signal
import sys

from . import _native


def main() -> None:
    """Answers until stdin ends."""
    # Ctrl-C is for whoever started the worker, and ends stdin.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        try:
            answer = _native.run_cell(line)
        except _native.NandexError as error:
            answer = json.dumps({"error": str(error)})
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
