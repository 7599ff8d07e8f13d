"""Runs hit at random times lose no cell and no bit (the rounds themselves: fault_rounds.py)."""

import fault_rounds
import pytest


def test_four_rounds(capsys):
    assert fault_rounds.play(4, seed=1) == 0
    assert "cells lost: 0" in capsys.readouterr().out


@pytest.mark.slow
def test_a_hundred_rounds(capsys):
    assert fault_rounds.play(100) == 0
    assert "cells lost: 0" in capsys.readouterr().out
