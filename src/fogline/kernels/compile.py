"""How does a loop become machine code, once per machine?

`kernel` is for what Python calls: it is compiled on the first call and kept on disk (`cache`). Where it can be kept
nowhere, it is compiled anew in each process, with a warning.

`inner` is for what only other kernels call. It gets no way in from Python, no cache and no machine code of its own: it
is optimised once, as part of the kernel that calls it. (Numba would optimise and translate it, with all that it calls,
at every level of calls: half of the time that compiling takes.) So is a kernel where another one calls it, and what
Numba itself wrote for NumPy's functions.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from numba import njit
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.registry import cpu_target
from numba.core.typed_passes import NativeLowering
from numba.core.types.misc import unliteral

from fogline.kernels.cache import KernelCache

HOW: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile on first call, kept until the function's file, or one that this imports, changes."""
    compiled, part = njit(pipeline_class=_Outer, **HOW)(function), inner(function)
    compiled.get_call_template, compiled.get_overload = part.get_call_template, part.get_overload
    with suppress(OSError):  # a function whose source is no file cannot be known again
        compiled._cache = KernelCache(function)
    return compiled


def inner(function: Callable[..., Any]) -> Any:
    """Compile as a part of the kernels that call it; see the module. Calling it from Python is a TypeError."""
    part = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=_Inner, **HOW)(function)
    template = part.get_call_template

    def get_call_template(args: Any, kws: Any) -> Any:  # a number in the code is any number: Numba compiles each anew
        return template(tuple(map(unliteral, args)), {name: unliteral(each) for name, each in kws.items()})

    part.get_call_template = get_call_template
    return part


def load_compiler() -> None:
    """Do now what Numba does before the first kernel of a process, be it kept or not: a third of a second."""
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


class _Unfinished(JITCodeLibrary):
    """Code that is only there to be linked into other code: neither optimised nor translated by itself."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _InnerLowering(NativeLowering):
    """Numba's own last step, but without machine code at its end."""

    _name = "fogline_inner_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _Unfinished(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        stand_in: dict[str, Any] = {}  # Numba wants some builtin for each function, none twice; this one refuses arrays
        entry = stand_in.update
        state.targetctx.insert_user_function(entry, state["cr"].fndesc, [state.library])
        state["cr"] = state["cr"]._replace(cfunc=entry)
        return True


class _Inner(CompilerBase):
    """Numba's pipeline, with that last step."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state, "fogline_inner")
        for k, (step, about) in enumerate(passes.passes):
            if step is NativeLowering:
                passes.passes[k] = (_InnerLowering, about)
        passes.finalize()
        return [passes]


class _Outer(Compiler):
    """Numba's pipeline, which compiles all that the function calls as a part of it, and looks for no garbage meanwhile.

    There is little, and looking takes a sixth of the time. Numba's lock is held, so no other thread compiles.
    """

    define_pipelines = Compiler.define_pipelines

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        """Compile a function and all that it calls."""
        looks, alone = gc.isenabled(), Compiler.define_pipelines
        gc.disable()
        Compiler.define_pipelines = _Inner.define_pipelines
        try:
            return super().compile_extra(func)
        finally:
            Compiler.define_pipelines = alone
            if looks:
                gc.enable()
