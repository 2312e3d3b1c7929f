"""The recurrences that ship, one short file a family; ``RECURRENCES`` finds them by name."""

from __future__ import annotations

import importlib
import pkgutil

from ..language import Recurrence

#: Every Recurrence of every module of this folder: a new file is found, not listed.
RECURRENCES: dict[str, Recurrence] = {
    value.name: value
    for module in sorted(m.name for m in pkgutil.iter_modules(__path__))
    for value in vars(importlib.import_module(f"{__name__}.{module}")).values()
    if isinstance(value, Recurrence)
}
# Each is also a name of this package, in place of the module of the same name.
globals().update(RECURRENCES)
