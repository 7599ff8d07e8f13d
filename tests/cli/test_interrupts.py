"""Ctrl-C at any moment of `python -m flyrun`: exit code 130, or 0 where all was done, and no traceback."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time

import pytest

from flyrun.ground.children import Pool

ARM = "dataset=toy_2d model=logistic bound=map sampler=random_walk protocol=smoke protocol.seeds=1"
# SIGINT may be ignored here, as in a shell's background. What precedes flyrun's own handler is not its own.
BEGIN = """
import _signal, os, signal, sys, time, flyrun
signal.signal(signal.SIGINT, signal.default_int_handler)
path = flyrun.__path__[0] + "/__main__.py"
with open(path) as file:
    code = compile(file.read(), path, "exec")

def press(process=os.getpid(), kill=os.kill, number=signal.SIGINT):
    kill(process, number)

def handled(*words, handle=_signal.signal):
    handle(*words)
    _signal.signal = handle
    print("begins", flush=True)
{more}
_signal.signal = handled
exec(code, {{"__name__": "__main__", "__file__": path}})
"""
# Imports make other errors of what is raised in them: of __set_name__, in Python 3.11, a RuntimeError.
IMPORTED = """
class Press:
    def find_spec(self, name, *rest):
        if name == "{}":
            try:
                press()
            except KeyboardInterrupt as error:
                raise RuntimeError from error

sys.meta_path.insert(0, Press())
"""
COLLECTED = """
class Press:
    def __del__(self, press=press):
        press()
"""
LISTING = """
def press_unheard(frame, event, argument):
    if frame.f_code.co_name == "list_text":
        sys.setprofile(None)
        Press()
        time.sleep(20)

sys.setprofile(press_unheard)
"""


def start(words, folder, more=""):
    command = [sys.executable, "-c", BEGIN.format(more=more), *words.split()]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begins\n"
    return process


def end(process):
    _, error = process.communicate(timeout=60)
    assert "Traceback" not in error, error
    assert "Exception" not in error, error
    assert "unexpected" not in error, error
    return process.returncode


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("words", "module"),
    [("list", "flyrun.cli.main"), ("list", "flyrun.ground.schema"), (ARM, "hydra"), (ARM, "numba")],
)
def test_while_importing(tmp_path, words, module):
    assert end(start(words, tmp_path, IMPORTED.format(module))) == 130


@pytest.mark.thorough
def test_where_python_cannot_raise(tmp_path):
    began = time.monotonic()
    assert end(start("list", tmp_path, COLLECTED + LISTING)) == 130
    assert time.monotonic() - began < 15


def test_when_python_is_ending(tmp_path):
    assert end(start("--version", tmp_path, COLLECTED + "last = Press()\n")) == 0


@pytest.mark.thorough
@pytest.mark.parametrize("presses", [1, 2])
def test_at_many_moments(tmp_path, presses):
    codes = set()
    for delay in (0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3):
        process = start("list", tmp_path)
        for _ in range(presses):
            time.sleep(delay)
            process.send_signal(2)
        codes.add(end(process))
    assert codes <= {0, 130}
    assert 130 in codes


def interrupted_pool():
    with Pool(2) as pool:
        waiting = [pool.submit(time.sleep, 60) for _ in range(2)]
        while not all(one.running() for one in waiting):
            time.sleep(0.01)
        raise KeyboardInterrupt


def test_a_pool_ends_at_once_with_what_waits_for_it():
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupted_pool()
    assert time.monotonic() - began < 30
    assert not multiprocessing.active_children()


def test_nobody_reads_the_last_line():
    command = [sys.executable, "-m", "flyrun", "--version"]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    with subprocess.Popen(command, env=buffered, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
