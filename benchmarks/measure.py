"""`kvbuffer-codegen tune --measure` from a checkout, on a machine with torch and numpy where nothing is installed.

python benchmarks/measure.py BUNDLE [--logs DIR] [--out DIR] [--budget 5m] [--json]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from h200 import importable

if __name__ == "__main__":
    importable()
    linked = [path for path in sys.path if (Path(path) / "kvbuffer_codegen" / "ir").exists()]
    os.environ["PYTHONPATH"] = os.pathsep.join([*linked, *filter(None, [os.environ.get("PYTHONPATH")])])  # of children
    from kvbuffer_codegen.cli.main import main

    sys.exit(main(["tune", "--measure", *sys.argv[1:]]))
