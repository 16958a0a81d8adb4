"""How does a loop become machine code, once per machine?

`kernel` is for what Python calls: it is compiled on the first call and kept on disk, beside the source or in the user's
cache folder when the package is read-only. Where neither can be written, it is compiled anew in each process instead of
failing at import.

`inner` is for what only other kernels call. It gets no way in from Python, no cache and no machine code of its own: it
is optimised once, as part of the kernel that calls it. (Numba would optimise and translate it, with all that it calls,
at every level of calls: half of the time that compiling takes.)
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from numba import njit
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

try:
    import fcntl
except ImportError:  # not everywhere
    fcntl = None  # type: ignore[assignment]

HOW: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def _stamp(path: Path) -> tuple[str, float, int]:
    found = path.stat()
    return path.name, found.st_mtime, found.st_size


# Numba asks only whether the kernel's own file has changed, not the files of the kernels it calls.
_ROOM = tuple(_stamp(path) for path in sorted(Path(__file__).parent.glob("*.py")))


def kernel(function: Callable[..., Any]) -> Any:
    """Compile on first call, cached until any file of this room, or the function's own, changes."""
    try:
        compiled = njit(cache=True, **HOW)(function)
    except RuntimeError:  # "no locator available": nowhere to keep the cache
        return njit(**HOW)(function)
    index = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if index is not None and hasattr(index, "_source_stamp"):
        index._source_stamp = _ROOM + _elsewhere(function)
        for name in ("save", "load"):
            setattr(index, name, _one_at_a_time(_readable(getattr(index, name), index), Path(index._cache_path)))
    return compiled


def inner(function: Callable[..., Any]) -> Any:
    """Compile as a part of the kernels that call it; see the module. Calling it from Python is a TypeError."""
    return njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=_Inner, **HOW)(function)


def _elsewhere(function: Callable[..., Any]) -> tuple[tuple[str, float, int], ...]:
    """The stamp of the function's file, if it is not in this room."""
    path = Path(function.__code__.co_filename)
    return () if path.parent == Path(__file__).parent or not path.exists() else (_stamp(path),)


def _readable(work: Callable[..., Any], index: Any) -> Callable[..., Any]:
    """Numba opens what another version of Fogline has kept before it looks at the stamp: types that are no more are an
    error then. Such a cache is thrown away.
    """

    def work_anew(*what: Any) -> Any:
        try:
            return work(*what)
        except (AttributeError, ImportError, EOFError, UnpicklingError):
            Path(index._index_path).unlink(missing_ok=True)
            return work(*what)

    return work_anew


def _one_at_a_time(work: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    """Numba reads its index, looks for a free name, and writes, index first: two processes that compile a kernel for
    different types at once would take the same name, and one would later run the other's machine code.
    """

    def alone(*what: Any) -> Any:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = (folder / ".lock").open("w")
        except OSError:  # read-only: nothing is written there
            return work(*what)
        with lock:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)
            return work(*what)

    return alone


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
