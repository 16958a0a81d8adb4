"""Is it stated that kernels are being compiled, when that takes long, and only then?"""

from __future__ import annotations

from fogline.kernels.compile import TEXT, Notice


def test_compiling_that_goes_on_is_stated_once(capsys):
    notice = Notice(long=60.0)
    notice.begin()
    notice._look()  # what the thread does, a while later
    notice._look()
    notice.end()
    assert capsys.readouterr().err == f"{TEXT}\n"


def test_between_two_kernels_it_goes_on(capsys):
    notice = Notice(long=60.0)
    notice.begin()
    notice.end()
    notice._look()
    assert TEXT in capsys.readouterr().err


def test_a_kernel_that_is_compiled_at_once_passes_without_a_word(capsys):
    notice = Notice(long=0.0)
    notice.quiet()
    notice.begin()
    notice._look()
    assert capsys.readouterr().err == ""
    short = Notice(long=0.0)
    short.silent = True  # no thread
    short.begin()
    short.end()
    short.silent = False
    short._look()
    assert capsys.readouterr().err == ""
