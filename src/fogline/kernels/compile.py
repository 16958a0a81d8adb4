"""How does a loop become machine code, once per machine, and where is that kept?

`kernel` is for what Python calls. It is compiled on the first call and kept on disk; where it can be kept nowhere, it
is compiled anew in each process, with a warning. `inner` is for what only other kernels call. It gets no entry from
Python, no cache and no machine code of its own: it is optimised by itself, then as part of the kernel that calls it.
(Numba would optimise and translate it, with all that it calls, at every level of calls: half of the time that compiling
takes.) The same holds for a kernel that another one calls, and for what Numba itself wrote for NumPy's functions.

Machine code is one file for each kernel and its types. It is looked for in these folders, in this order, and written to
the first of them that can be written:

1. `FOGLINE_CACHE`, such as a folder that `fogline warm` made and an image or archive carries to the workers;
2. `NUMBA_CACHE_DIR`;
3. `__pycache__` beside the source;
4. the user's cache folder, `XDG_CACHE_HOME` or `~/.cache`;
5. a folder in the temporary one that belongs to the user alone.

It is also looked for, and never written, in `compiled` within the package, which a wheel brings along.

A file is named by all that its content depends on: the text of its source and of all files of the package that this
imports, directly or not (neither their place nor their times, so a cache made on one machine is good on another), the
versions of Python and Numba, the processor, the types. So an edit compiles only what depends on the edited file.
Nothing is ever changed under a name, and no lock is needed, which not all file systems have: a file is written beside
its place and renamed, and processes that compile the same kernel at once write the same file. (Numba's own cache has an
index per kernel that is read, changed and written: two that compile a kernel for different types at once would take the
same name, and one would later run the other's machine code.)

Code for the processor at hand is taken first, then code for the best of the `LEVELS` that it can run: a wheel holds
that, and a cache for workers of several kinds may. With NUMBA_CPU_NAME set, only code for that processor is taken.
Every level computes the same bits: without `fastmath` no product and sum become one operation, and no sum changes its
order.

Where compiling takes longer than a moment, a line on stderr states it, once per process (`Notice`). Workers of an
engine are `quiet`: there are many of them, and what they print is not for a terminal.
"""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import re
import stat
import sys
import uuid
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from tempfile import gettempdir
from threading import Lock, Timer
from time import monotonic
from typing import Any, NamedTuple

import numba
from llvmlite.binding import Linkage
from numba import njit, types
from numba.core import config, ir
from numba.core.cgutils import alloca_once
from numba.core.codegen import JITCodeLibrary, get_host_cpu_features
from numba.core.compiler import Compiler, CompilerBase, CompileResult, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.datamodel.models import TupleModel
from numba.core.datamodel.registry import default_manager
from numba.core.lowering import Lower
from numba.core.postproc import PostProcessor, VariableLifetime
from numba.core.registry import cpu_target
from numba.core.serialize import dumps
from numba.core.transforms import canonicalize_cfg
from numba.core.typed_passes import NativeLowering
from numba.core.types.containers import BaseNamedTuple
from numba.core.types.functions import BaseFunction
from numba.core.types.misc import unliteral

HOW: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
CARRIED = "FOGLINE_CACHE"
LONG = 2.0  # seconds of compiling that pass without a word
TEXT = "fogline: compiling kernels, once for this machine (about a minute) …"


class Level(NamedTuple):
    """A processor that stands for many, as NUMBA_CPU_NAME and NUMBA_CPU_FEATURES name it."""

    cpu: str
    features: str


LEVELS = (  # best first
    Level(
        "x86-64-v3",
        "+avx,+avx2,+bmi,+bmi2,+cx16,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sahf,+sse3,+sse4.1,+sse4.2,+ssse3,+xsave",
    ),
    Level("generic", ""),
)

_ROOM = Path(__file__).parent
_PACKAGE = _ROOM.parent
_COMPILED = _PACKAGE / "compiled"  # what a wheel brings along
_IMPORTS = re.compile(rf"^\s*(?:from|import)\s+{_PACKAGE.name}\.([\w.]+)".encode(), re.MULTILINE)
_SIZE = 16  # bytes of a digest
_used: dict[tuple[str, str], Path] = {}  # room and name of a file -> where this process found it or put it


def kernel(function: Callable[..., Any]) -> Any:
    """Compile on first call, kept until the function's file, or one that this imports, changes."""
    compiled, part = njit(no_cfunc_wrapper=True, pipeline_class=_Outer, **HOW)(function), inner(function)
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


# --- Where machine code is kept ---------------------------------------------------------------------------------------


class KernelCache:
    """What Numba asks for the machine code of one function before it compiles, and hands what it compiled."""

    def __init__(self, function: Callable[..., Any]) -> None:
        source = Path(function.__code__.co_filename)
        self._room = source.parent
        self._family = f"{source.stem}.{function.__qualname__}".replace("<", "").replace(">", "") + "-"
        self._own = (function.__code__.co_code, tuple(cell.cell_contents for cell in function.__closure__ or ()))
        self._stamp = stamp(source)
        self._shipped = _COMPILED / _room_name(self._room)

    @property
    def cache_path(self) -> str:
        """Where machine code is kept if it can be."""
        return str(self._places()[0])

    def load_overload(self, types: Any, target: Any) -> Any:
        """The machine code for these types, or None."""
        target.refresh()
        folders = [folder for folder in (*self._places(), self._shipped) if _is_safe(folder)]
        for processor in _fitting(target.codegen().magic_tuple()):
            name = self._name(types, processor)
            for folder in folders:
                try:
                    whose, code = pickle.loads(_opened((folder / name).read_bytes()))
                except Exception:  # not there, torn, not ours: whatever it is, it is no machine code
                    continue
                if whose == types:
                    _used[_room_name(self._room), name] = folder / name
                    return CompileResult._rebuild(target, *code)
        notice.begin()
        return None

    def save_overload(self, types: Any, compiled: Any) -> None:
        """Keep what was compiled, where it can be kept."""
        notice.end()
        if compiled.library.has_dynamic_globals or any(not each.can_cache for each in compiled.lifted):
            return
        name = self._name(types, compiled.library.codegen.magic_tuple())
        data = _closed(dumps((types, compiled._reduce())))
        places = self._places()
        for folder in places:
            try:
                _write(folder, name, data)
            except OSError:
                continue
            self._remove_old(folder)
            _used[_room_name(self._room), name] = folder / name
            if os.environ.get(CARRIED) and folder != places[0]:
                _warn_once(
                    f"{CARRIED} is {os.environ[CARRIED]!r}, which cannot be written and does not hold all machine code "
                    f"of this version for the processor {compiled.library.codegen.magic_tuple()[1]!r}: kernels are "
                    f"compiled, and kept in {folder}. Make the folder with `fogline warm` on such a machine."
                )
            return
        _warn_once(
            f"compiled kernels can be kept in none of {', '.join(map(str, places))}, so every process compiles them "
            f"again, which takes a minute. Set {CARRIED} to a folder that can be written, or to one that "
            "`fogline warm` made."
        )

    def enable(self) -> None:
        """Numba asks for it; this cache always is."""

    def disable(self) -> None:
        """Numba asks for it; this cache always is enabled."""

    def flush(self) -> None:
        """Numba asks for it; what is old is known by its name."""

    def _places(self) -> tuple[Path, ...]:
        return _folders(self._room, os.environ.get(CARRIED, ""), config.CACHE_DIR, _version())

    def _name(self, types: Any, processor: tuple[str, ...]) -> str:
        key = _digest(repr((types, processor)).encode(), dumps(self._own))
        return f"{self._family}{self._stamp}-{key}.nbc"

    def _remove_old(self, folder: Path) -> None:
        """What was compiled from another text of the sources."""
        for path in folder.glob(f"{self._family}*.nbc"):
            if not path.name.startswith(f"{self._family}{self._stamp}-"):
                with suppress(OSError):  # another user's, or gone meanwhile
                    path.unlink()


def levels(features: str | None = None) -> list[Level]:
    """The levels whose code a processor with these features can run, or this one, best first."""
    there = set((get_host_cpu_features() if features is None else features).split(","))
    return [level for level in LEVELS if there.issuperset(filter(None, level.features.split(",")))]


@cache
def _fitting(own: tuple[str, str, str]) -> list[tuple[str, ...]]:
    """The system and processor that code is made for here, and others whose code does as well, best first."""
    system, _, features = own
    return [own, *((system, *level) for level in levels(features) if not config.CPU_NAME)]


@cache
def _folders(room: Path, carried: str, numbas: str, version: str) -> tuple[Path, ...]:
    """Where the machine code of the functions of a room may lie, best place first."""
    name = _room_name(room)
    shared = [Path(root).absolute() / name for root in (carried, numbas) if root]
    return (*shared, room / "__pycache__", *(root / f"{name}-{version}" for root in (_of_user(), _temporary()) if root))


def _room_name(room: Path) -> str:
    """The package's name for what belongs to Fogline, wherever it lies; the name of its place for all else."""
    if room.is_relative_to(_PACKAGE):
        return ".".join((_PACKAGE.name, *room.relative_to(_PACKAGE).parts))
    return f"{room.name}-{_digest(str(room.absolute()).encode())}"


def _of_user() -> Path | None:
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fogline" / "kernels"
    except RuntimeError:  # a user without a home
        return None


def _temporary() -> Path:
    return Path(gettempdir()) / f"fogline-kernels-{os.getuid()}"


def _is_safe(folder: Path) -> bool:
    """Machine code is run: from the temporary folder only if no one else may write there."""
    if folder.parent != _temporary():
        return True
    try:
        found = folder.parent.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


@cache
def stamp(source: Path) -> str:
    """What compiled code depends on beside its types: versions, its source file, and all that this imports."""
    digest, imported = _read(source)
    digests, waiting = {source: digest}, set(imported)
    while waiting:
        path = waiting.pop()
        if path not in digests:
            digests[path], imported = _read(path)
            waiting |= imported
    versions = f"{numba.__version__} {sys.implementation.cache_tag} {getattr(sys, 'abiflags', '')}"
    return _digest(versions.encode(), digest, *(digests[path] for path in sorted(digests) if path != source))


@cache
def _read(source: Path) -> tuple[bytes, frozenset[Path]]:
    """A digest of a file, and which files of the package it imports itself, as its lines that begin so state.

    (To parse all of them would take a tenth of a second in every process.)
    """
    text = _file(source).read_bytes()
    named = (_PACKAGE.joinpath(*name.decode().split(".")).with_suffix(".py") for name in _IMPORTS.findall(text))
    return hashlib.sha256(text).digest(), frozenset(path for path in named if _file(path).is_file())


def _file(path: Path) -> Traversable:
    """The package may lie in an archive."""
    inside = path.is_relative_to(_PACKAGE)
    return files(_PACKAGE.name).joinpath(*path.relative_to(_PACKAGE).parts) if inside else path


@cache
def _stamps() -> tuple[str, ...]:
    """Of all files of this room."""
    names = sorted(each.name for each in files(__package__).iterdir() if each.name.endswith(".py"))
    return tuple(stamp(_ROOM / name) for name in names)


def _version() -> str:
    """Of this room, for the folders of a user that hold the machine code of several."""
    return _digest("".join(_stamps()).encode())


def is_cold() -> bool:
    """Is no machine code of this version kept on this machine yet, so that the first call will compile?"""
    places = _folders(_ROOM, os.environ.get(CARRIED, ""), config.CACHE_DIR, _version())
    folders = (*places, _COMPILED / _room_name(_ROOM))
    kept = {path.name.split("-")[1] for folder in folders if folder.is_dir() for path in folder.glob("*-*-*.nbc")}
    return kept.isdisjoint(_stamps())


def count_used() -> int:
    """How many files of machine code has this process used so far?"""
    return len(_used)


def copy_used(folder: Path) -> int:
    """Copy the machine code that this process has used so far; how many files is that?"""
    for (room, name), path in _used.items():
        if path.parent != folder / room:
            _write(folder / room, name, path.read_bytes())
    return len(_used)


def _write(folder: Path, name: str, data: bytes) -> None:
    if folder.parent == _temporary():
        folder.parent.mkdir(mode=0o700, exist_ok=True)
    if not _is_safe(folder):
        raise PermissionError(f"others may write into {folder.parent}")
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{name}.{uuid.uuid4().hex}"
    try:
        draft.write_bytes(data)
        draft.replace(folder / name)
    finally:
        draft.unlink(missing_ok=True)


def _closed(content: bytes) -> bytes:
    """Machine code with its digest: one flipped bit of it would still be run."""
    return hashlib.blake2b(content, digest_size=_SIZE).digest() + content


def _opened(saved: bytes) -> bytes:
    """The inverse of `_closed`."""
    if hashlib.blake2b(saved[_SIZE:], digest_size=_SIZE).digest() != saved[:_SIZE]:
        raise ValueError("this is not what was written")
    return saved[_SIZE:]


@cache
def _warn_once(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=2)


def _digest(*texts: bytes) -> str:
    lengths = b"".join(len(text).to_bytes(8, "little") for text in texts)
    return hashlib.sha256(lengths + b"".join(texts)).hexdigest()[:16]


# --- How Numba is asked to compile ------------------------------------------------------------------------------------


class _Whole(TupleModel):
    """A named tuple of arrays as an argument: one value.

    Numba hands over each field of each array by itself. A live set has two hundred; to take it apart before each call,
    and put it together behind, was most of what was written down and optimised.
    """

    def get_argument_type(self) -> Any:
        return self.get_value_type()

    def as_argument(self, _builder: Any, value: Any) -> Any:
        return value

    def from_argument(self, _builder: Any, value: Any) -> Any:
        return value


def _model(manager: Any, named: Any) -> TupleModel:
    """How a named tuple is handed over: the package's as a whole, all others, which other kernels know, as ever."""
    return (_Whole if named.instance_class.__module__.startswith(f"{_PACKAGE.name}.") else TupleModel)(manager, named)


default_manager.register(types.NamedTuple, _model)


class _Part(JITCodeLibrary):
    """Code that is only there to be linked into a kernel: neither linked nor translated by itself."""

    _shared_module: Any

    def finalize(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None:
            self._shared_module = self._final_module
            for function in self._final_module.functions:
                if not function.is_declaration and function.linkage == Linkage.external:
                    function.linkage = "linkonce_odr"
        return self._shared_module


class _Kernel(JITCodeLibrary):
    """Code of a kernel. It links each part that it calls, directly or not, once."""

    _linking_libraries: Any

    def finalize(self) -> None:
        found, waiting = dict.fromkeys(self._linking_libraries), list(self._linking_libraries)
        while waiting:
            part = waiting.pop()
            new = [each for each in part._linking_libraries if isinstance(part, _Part) and each not in found]
            found.update(dict.fromkeys(new))
            waiting += new
        self._linking_libraries = list(found)
        super().finalize()


class _Lower(Lower):
    """Numba's translation of a function. What the caller holds as long as it runs is its arguments, the fields of those
    that are named tuples, and other names of these. They are looked up where they are used: they have no place of their
    own in memory, and no references to them are counted. A live set is two dozen arrays.
    """

    def init(self) -> None:
        super().init()
        assigned = [each for block in self.blocks.values() for each in block.find_insts(ir.Assign)]
        often = Counter(each.target.name for each in assigned)
        self._held: dict[str, Any] = {}
        before = -1
        while len(self._held) > before:  # a field of a field is held, too
            before = len(self._held)
            self._held.update(
                (each.target.name, each.value)
                for each in assigned
                if often[each.target.name] == 1 and self._holds(each.value, self.typeof(each.target.name))
            )

    def _holds(self, value: Any, found: Any) -> bool:
        if isinstance(value, ir.Arg):
            return bool(self.typeof(f"arg.{value.name}") == found)
        if isinstance(value, ir.Var):
            return value.name in self._held and self.typeof(value.name) == found
        if not (isinstance(value, ir.Expr) and value.op == "getattr" and value.value.name in self._held):
            return False
        whole = self.typeof(value.value.name)
        return isinstance(whole, BaseNamedTuple) and whole[whole.fields.index(value.attr)] == found

    def lower_inst(self, inst: Any) -> None:
        if not (isinstance(inst, ir.Assign) and inst.target.name in self._held):
            super().lower_inst(inst)

    def loadvar(self, name: str) -> Any:
        value = self._held.get(name)
        if value is None:
            return super().loadvar(name)
        if isinstance(value, ir.Arg):
            return self.fnargs[value.index]
        if isinstance(value, ir.Var):
            return self.loadvar(value.name)
        whole = value.value.name
        return self.builder.extract_value(self.loadvar(whole), self.typeof(whole).fields.index(value.attr))

    def delvar(self, name: str) -> None:
        if name not in self._held:
            super().delvar(name)

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:  # it is not to be debugged
        return alloca_once(self.builder, lltype, name=name, zfill=False)


@register_pass(mutates_CFG=True, analysis_only=False)
class _OuterLowering(NativeLowering):
    """Numba's last step."""

    _name = "fogline_outer_lowering"
    lowering_class = _Lower

    def run_pass(self, state: Any) -> bool:
        state.library = _Kernel(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class _InnerLowering(NativeLowering):
    """The same, but without machine code at its end."""

    _name = "fogline_inner_lowering"
    lowering_class = _Lower

    def run_pass(self, state: Any) -> bool:
        state.library = _Part(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = state.flags.no_cfunc_wrapper = True
        super().run_pass(state)
        stand_in: dict[str, Any] = {}  # Numba wants some builtin for each function, none twice; this one refuses arrays
        entry = stand_in.update
        state.targetctx.insert_user_function(entry, state["cr"].fndesc, [state.library])
        state["cr"] = state["cr"]._replace(cfunc=entry)
        return True


def _pipeline(state: Any, last: Any) -> list[Any]:
    """Numba's pipeline with another last step."""
    passes = DefaultPassBuilder.define_nopython_pipeline(state, last._name)
    passes.passes = [(last if step is NativeLowering else step, about) for step, about in passes.passes]
    passes.finalize()
    return [passes]


class _Inner(CompilerBase):
    """How a part of a kernel is compiled."""

    def define_pipelines(self) -> list[Any]:
        return _pipeline(self.state, _InnerLowering)


def _analysed(processor: PostProcessor, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """What Numba does after a step, without what only generators and code that is lifted out of a function need."""
    function = processor.func_ir
    function.blocks = canonicalize_cfg(function.blocks)
    function.variable_lifetime, function.generator_info = VariableLifetime(function.blocks), None
    if emit_dels:
        processor._insert_var_dels(extend_lifetimes=extend_lifetimes)


class _Outer(CompilerBase):
    """How a kernel is compiled, with all that it calls as a part of it. Meanwhile

    - no garbage is looked for: there is little, and looking takes a sixth of the time. Numba's lock is held, so no
      other thread compiles;
    - what an operation makes of some types is found out once, not wherever it occurs: Numba tries many candidates;
    - Numba does not check after each step what the step before left, nor find out after each what lives how long: it
      does so where it needs to know.
    """

    def define_pipelines(self) -> list[Any]:
        return _pipeline(self.state, _OuterLowering)

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        """Compile a function and all that it calls."""
        operations: Any = BaseFunction
        looks, alone, look_up = gc.isenabled(), Compiler.define_pipelines, operations.get_call_type
        checks, analyse, found = PassManager._ENFORCING, PostProcessor.run, dict[Any, Any]()

        def remember(function: Any, context: Any, args: Any, kws: Any) -> Any:
            key = function, tuple(args), tuple(sorted(kws.items()))
            if key not in found:
                found[key] = look_up(function, context, args, kws)
            return found[key]

        gc.disable()
        Compiler.define_pipelines, operations.get_call_type = _Inner.define_pipelines, remember
        PassManager._ENFORCING, PostProcessor.run = False, _analysed
        try:
            return super().compile_extra(func)
        finally:
            Compiler.define_pipelines, operations.get_call_type = alone, look_up
            PassManager._ENFORCING, PostProcessor.run = checks, analyse
            if looks:
                gc.enable()


# --- That it takes a while --------------------------------------------------------------------------------------------


class Notice:
    """Counts what is being compiled. A thread looks, `long` seconds after the first kernel, whether it goes on."""

    def __init__(self, long: float = LONG) -> None:
        self.long = long
        self.silent = False  # nothing is to be stated, or it has been
        self._open = 0
        self._ended = 0.0
        self._timer: Timer | None = None
        self._lock = Lock()

    def begin(self) -> None:
        """A kernel is about to be compiled."""
        with self._lock:
            self._open += 1
            if self._timer is None and not self.silent:
                self._timer = Timer(self.long, self._look)
                self._timer.daemon = True
                self._timer.start()

    def end(self) -> None:
        """A kernel has been compiled."""
        with self._lock:
            self._open, self._ended = max(self._open - 1, 0), monotonic()

    def quiet(self) -> None:
        """State nothing in this process."""
        self.silent = True

    def _look(self) -> None:
        with self._lock:
            self._timer = None
            goes_on = self._open > 0 or monotonic() - self._ended < self.long / 4
            if not goes_on or self.silent:
                return
            self.silent = True
        print(TEXT, file=sys.stderr, flush=True)


notice = Notice()
