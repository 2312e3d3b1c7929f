"""The kernels of one pool: what the dispatcher answers, asked once for each form and batch size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from kvbuffer_codegen.ir.forms import FORMS, KernelSpec, cursor_spec
from kvbuffer_codegen.runtime import dispatcher
from kvbuffer_codegen.runtime.errors import shown
from kvbuffer_codegen.runtime.policy import FORM_CHOICES

Function = TypeVar("Function", bound=Callable[..., Any])


def constant(function: Function) -> Function:
    """What ``torch.compiler.assume_constant_result`` does, without its import of torch._dynamo, which takes seconds."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


class Lookup:
    """``fields``: those of a ``KernelSpec``, form and window aside.

    Answers depend on sizes that the host knows alone, so a graph that ``torch.compile`` makes holds them as constants.
    """

    def __init__(
        self,
        fields: dict[str, Any],
        device: torch.device,
        heads: tuple[int, int],
        form: str,
        strict: bool,
        batch_invariant: bool,
    ) -> None:
        if form not in FORM_CHOICES:
            raise ValueError(f"form={shown(form)}; accepted: {', '.join(FORM_CHOICES)} (auto: the dispatcher chooses)")
        self.fields, self.device, self.heads, self.form = fields, device, heads, form
        self.strict, self.batch_invariant = strict, batch_invariant
        self._kernels: dict[tuple[str, int, int, bool], str] = {}
        self._forms: dict[int, str] = {}

    def spec(self, form: str, window: int = 0, tree: bool = False) -> KernelSpec:
        if FORMS[form].cursors_only:
            return cursor_spec(form, self.fields["rounding"])
        return KernelSpec(form, window=window, tree=tree, **self.fields)

    @constant
    def kernel(self, form: str, batch: int, window: int = 0, tree: bool = False) -> str:
        """The operators' name of the kernel that serves ``batch`` rows."""
        key = (form, batch, window, tree)
        if key not in self._kernels:
            self._kernels[key] = dispatcher.select(
                self.spec(form, window, tree),
                self.device,
                batch,
                self.heads,
                strict=self.strict,
                batch_invariant=self.batch_invariant,
            )
        return self._kernels[key]

    @constant
    def token_form(self, batch: int) -> str:
        """ "decode" or "step": what a token step of ``batch`` rows runs."""
        if self.form != "auto":
            return self.form
        if batch not in self._forms:
            self._forms[batch] = dispatcher.token_form(
                self.spec("decode"),
                self.spec("step"),
                self.device,
                batch,
                self.heads,
                batch_invariant=self.batch_invariant,
            )
        return self._forms[batch]
