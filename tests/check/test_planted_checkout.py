"""`flyrun check --against HEAD` of an edited checkout: the whole command finds each planted error."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# each compiles all of two checkouts anew
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
_RULE = "flyrun/experiments/samplers/chain/acceptance/rule.py"
_WALK = "flyrun/experiments/samplers/chain/random_walk.py"
_SWEEP = "flyrun/experiments/samplers/chain/brightness/base.py"
_PROBABILITY = "    return exp(min(0.0, log_ratio))\n"
_PROPOSAL = "        proposal[d] = theta[d] + step * proposal[d]\n"
_LEVEL = "        level = max(memory.values[i] - log_rate(brightness, ith_bright(partition, i)), 0.0)\n"
_NOISE = "    normals(kernel.stream, rng, noise)\n"

ERRORS = {
    "temperature 1.1": (_RULE, _PROBABILITY, "    return exp(min(0.0, log_ratio / 1.1))\n"),
    "acceptance × 1.1": (_RULE, _PROBABILITY, "    return min(1.0, 1.1 * exp(min(0.0, log_ratio)))\n"),
    "drift": (_WALK, _PROPOSAL, _PROPOSAL.replace("step *", "0.1 * step * abs(proposal[d]) + step *")),
    "darkens too readily": (_SWEEP, _LEVEL, _LEVEL.replace("max(", "0.9 * max(")),
}


def checked(folder, path, line, instead):
    """The exit code of the check of a copy with one line changed, and what it printed."""
    subprocess.run(["git", "clone", "--quiet", "--local", ROOT, folder], check=True)
    source = (folder / path).read_text(encoding="utf-8")
    assert source.count(line) == 1
    (folder / path).write_text(source.replace(line, instead), encoding="utf-8")
    command = [sys.executable, "-m", "flyrun", "check", "toy_flymc", "--against", "HEAD"]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("error", ERRORS)
def test_the_whole_command_finds_a_planted_error(error, tmp_path):
    """A check whose parts find an error, but whose command never runs them, or not on the code that changed:
    one wrong line gives exit code 1, and how small an error would have shown is printed."""
    code, said = checked(tmp_path / "copy", *ERRORS[error])
    assert code == 1, said
    assert "DIFFERS" in said, said
    assert "sd would show" in said, said


def test_the_whole_command_passes_a_change_of_bits(tmp_path):
    """The control: normals drawn once more before each step make other chains of the same posterior."""
    code, said = checked(tmp_path / "copy", _WALK, _NOISE, 2 * _NOISE)
    assert code == 0, said
    assert "right" in said, said
    assert "sd would show" in said, said
