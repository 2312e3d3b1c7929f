"""One process of other projects' kernels: runs a bench of a folder that is not part of this repository.

    python benchmarks/peer_child.py SCRIPT.py LOG.jsonl [arguments of the script ...]

SCRIPT lies beside ``bench_peers.py``, or in a folder of its own with that on PYTHONPATH. Of it this needs: a list
``ROWS``; ``bench_one(name, make, B, tag, T, case, note)``, which times one peer and appends to ROWS, or prints why not;
and ``main()`` in SCRIPT, which calls it. Each attempt is a line of LOG before ({"begin": ...}) and after it
({"row": ...} or {"failed": ...}); what LOG has already is left out. A device error ends the process, since nothing
after it can be believed.

A case and a peer's buffers are written on the current stream, and ``timeit`` runs the peer on a stream of its own that
does not wait for it. Once a peer's kernel is compiled it would so begin before its slots are there, and read states at
whatever the memory held: the device is waited for before and after ``make``.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    script, log = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    done = [line["begin"] for line in map(json.loads, log.read_text().splitlines()) if "begin" in line]
    sys.argv = [str(script), *sys.argv[3:]]  # the benches read their arguments when they are imported
    sys.path.insert(0, str(script.parent))
    bench = importlib.import_module("bench_peers")
    inner = bench.bench_one

    def bench_one(name: str, make: Any, B: int, tag: str, T: int, case: Any, note: str = "") -> None:
        attempt = {"name": name, "B": B, "state": tag, "T": T}
        if attempt in done:
            return
        say({"begin": attempt})
        before, heard = len(bench.ROWS), io.StringIO()
        with contextlib.redirect_stdout(heard):
            inner(name, lambda case: settled(make(case)), B, tag, T, settled(case), note)
        print(heard.getvalue(), end="", flush=True)
        if len(bench.ROWS) > before:
            say({"row": bench.ROWS[-1]})
        else:
            say({"failed": {**attempt, "reason": reason(heard.getvalue())}})
        if not healthy():
            sys.exit("the device reported an error")

    def say(line: dict[str, Any]) -> None:
        with log.open("a") as file:
            file.write(json.dumps(line) + "\n")

    bench.bench_one = bench_one
    importlib.import_module(script.stem).main()


def reason(printed: str) -> str:
    """What the bench printed behind ERROR; it prints nothing where its own budget is spent."""
    return printed.partition("ERROR ")[2].strip() or printed.strip() or "no time was left"


def settled(made: Any) -> Any:
    """``made``, once every stream has written what it holds."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize()
    return made


def healthy() -> bool:
    try:
        settled(None)
    except RuntimeError:
        return False
    return True


if __name__ == "__main__":
    main()
