"""How does a wheel come to hold compiled kernels, so that nothing is compiled at first use?

This is Hatchling as build backend, and a hook of it. A wheel gets the machine code of all kernels of a pipeline, for
each level of processors that the building one can run (`fogline.kernels.compile.LEVELS`), and is good for this Python
and this system alone. An editable install and the source archive hold none, and need nothing installed to be built;
`HATCH_BUILD_NO_HOOKS=1` makes a wheel without, which is good for every Python.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling import build as hatchling
from hatchling.build import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
)
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.builders.wheel import WheelBuilder

__all__ = [
    "KernelsHook",
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]

COMPILE = "import sys, pathlib; from fogline.pipeline.warm import warm_levels; warm_levels(pathlib.Path(sys.argv[1]))"


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """What kernels need to be compiled: all that they need to run."""
    needed = hatchling.get_requires_for_build_wheel(config_settings)
    without = os.environ.get("HATCH_BUILD_NO_HOOKS", "") in ("1", "true")
    return needed if without else [*needed, *WheelBuilder(str(Path.cwd())).metadata.core.dependencies]


class KernelsHook(BuildHookInterface):
    """Puts machine code into the wheel, as `fogline/compiled`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before files are collected; `version` is "standard" or "editable"."""
        if version == "editable":
            return
        self.draft = TemporaryDirectory()
        path = [str(Path(self.root, "src")), os.environ.get("PYTHONPATH", "")]  # pip's own: what the build needs
        there = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}
        subprocess.run([sys.executable, "-c", COMPILE, self.draft.name], env=there, check=True)
        build_data["force_include"][self.draft.name] = "fogline/compiled"
        build_data["pure_python"], build_data["infer_tag"] = False, True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called when the wheel is written."""
        if version != "editable":
            self.draft.cleanup()
