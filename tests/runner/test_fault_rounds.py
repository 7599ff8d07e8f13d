"""Runs hit at random times lose no cell and no bit (the rounds themselves: fault_rounds.py)."""

import fault_rounds
import pytest


@pytest.mark.thorough
def test_four_rounds(capsys):
    assert fault_rounds.play(4, seed=1) == 0
    assert "cells lost: 0" in capsys.readouterr().out


@pytest.mark.slow
def test_a_hundred_rounds(capsys):
    assert fault_rounds.play(100) == 0
    assert "cells lost: 0" in capsys.readouterr().out


@pytest.mark.slow
def test_twenty_rounds_on_dask(capsys):
    """A run on a cluster that is called finished though it is not, or whose draws depend on who died."""
    pytest.importorskip("distributed")
    assert fault_rounds.play(20, kind=fault_rounds.DaskRound, faults=fault_rounds.DASK_FAULTS) == 0
    assert "cells lost: 0" in capsys.readouterr().out
