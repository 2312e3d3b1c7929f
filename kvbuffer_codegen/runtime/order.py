"""What the host can see of a token step: which layers ran, in which form, and whether its outcome was applied."""

from __future__ import annotations

from kvbuffer_codegen.runtime.errors import shown


class OrderError(RuntimeError):
    """Calls in an order that would corrupt rows. Nothing was launched, nothing was touched."""


class Order:
    """Between two advances or commits each layer runs exactly once, all in one form and for as many rows.

    ``form`` is that of the open step, None between steps.
    """

    def __init__(self, layers: int) -> None:
        self.form: str | None = None
        self._batch = 0
        self._ran = [False] * layers
        self._dropped = False

    @property
    def complete(self) -> bool:
        return all(self._ran)

    @property
    def between(self) -> bool:
        """Whether the next layer call begins a step."""
        return self.form is None or (self._dropped and self.complete)

    @property
    def token_form(self) -> str | None:
        """The form of the token step that is open, if one is."""
        return self.form if self.form in ("decode", "step") and not self.between else None

    def before_load(self, layer: int) -> None:
        """States of one layer are set: not between its run and the end of the step."""
        self._known(layer)
        if self._ran[layer] and not (self.form == "verify" and self.complete):
            raise OrderError(
                f"load of layer {layer}: it ran already in this step ({self.form}); load each layer before it runs, or "
                "reset the rows to give the step up"
            )

    def before_layer(self, form: str, layer: int, batch: int) -> None:
        self._known(layer)
        if self.between:
            return
        if self.complete:
            raise OrderError(f"{form} of layer {layer}: all layers ran {self.form}; call {self._closing()} first")
        if form != self.form:
            raise OrderError(
                f"{form} of layer {layer}: this step began as {self.form}, and its layers all run one form; "
                f"call {self.form}, or reset the rows to give the step up"
            )
        if self._ran[layer]:
            raise OrderError(
                f"{form} of layer {layer}: it ran already in this step; layers {self._missing()} are to run, then "
                f"{self._closing()}; reset the rows to give the step up"
            )
        self._same_batch(f"{form} of layer {layer}", batch)

    def after_layer(self, form: str, layer: int, batch: int) -> None:
        if self.between:
            self.close()
        self.form, self._batch = form, batch
        self._ran[layer] = True

    def before_closing(self, call: str, batch: int) -> str:
        """``call``: "advance" or "commit". Returns the form that the layers ran. Rows that were reset meanwhile may be
        left out."""
        if self.form is None:
            needed = "verify" if call == "commit" else "decode or step"
            raise OrderError(
                f"{call}: no layer has run since the last advance or commit; accepted after {needed} of every layer "
                f"(where a captured graph runs the layers, capture {call} too)"
            )
        if call != self._closing():
            raise OrderError(f"{call}: the layers ran {self.form}; call {self._closing()}")
        if not self.complete:
            raise OrderError(
                f"{call}: layers {self._missing()} have not run {self.form}; run them, or reset the rows to give the "
                "step up"
            )
        if not self._dropped:
            self._same_batch(call, batch)
        return self.form

    def close(self) -> None:
        for layer in range(len(self._ran)):
            self._ran[layer] = False
        self.form, self._dropped = None, False

    def give_up(self) -> None:
        """Rows were reset. A step broken off between layers ends; one that all layers ran may still be closed for its
        other rows, or be given up by starting the next."""
        if self.complete:
            self._dropped = True
        else:
            self.close()

    def between_steps(self, call: str, window_ok: bool = False) -> None:
        if self.form is not None and not (window_ok and self.form == "verify" and self.complete):
            end = f"call {self._closing()}" if self.complete else f"run layers {self._missing()} and {self._closing()}"
            raise OrderError(
                f"{call}: a step ({self.form}) is open; {end} first, or reset the rows to give the step up"
            )

    def _known(self, layer: int) -> None:
        if isinstance(layer, bool) or not isinstance(layer, int) or not 0 <= layer < len(self._ran):
            raise IndexError(f"layer={shown(layer)}; accepted: 0 to {len(self._ran) - 1}, the layers of the pool")

    def _same_batch(self, call: str, batch: int) -> None:
        if batch != self._batch:
            raise OrderError(
                f"{call}: slots holds {batch} rows, and this step began with {self._batch}; accepted: the same slots "
                f"in every layer and in {self._closing()} (-1 leaves a row alone); reset the rows to give the step up"
            )

    def _closing(self) -> str:
        return "commit" if self.form == "verify" else "advance"

    def _missing(self) -> str:
        return ", ".join(str(i) for i, ran in enumerate(self._ran) if not ran)
