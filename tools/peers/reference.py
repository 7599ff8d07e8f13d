"""The posterior's means and sds that all are compared with: long chains of NumPyro's NUTS, kept on disk."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json

import numpy as np

from flyrun import paths
from flyrun.data import archive
from flyrun.errors import DataError
from tools.peers import contestants, judge
from tools.peers.judge import Moments
from tools.peers.problems import Problem

CHAINS, LONGEST_S = 3, 300.0
_FIRST_SEED, _PILOT_S = 1000, 5.0
_FIELDS = ("mean", "sd", "mean_error", "sd_error")


def moments(problem: Problem, wanted: int) -> Moments:
    """From the cache, or of CHAINS chains with dense mass and a pilot, other seeds than the contest's.

    wanted: effective draws of the worst coordinate's squares; fewer where LONGEST_S of sampling end first.
    """
    path = paths.cache_dir("peers") / f"{_key(problem, wanted)}.npz"
    with contextlib.suppress(OSError, DataError):
        return Moments(**archive.from_bytes(path.read_bytes(), _FIELDS, str(path)))
    found = _sampled(problem, wanted)
    content = archive.to_bytes({name: getattr(found, name) for name in _FIELDS}, compress=False)
    with contextlib.suppress(OSError):
        archive.write(path, content)
    return found


def _sampled(problem: Problem, wanted: int) -> Moments:
    nuts = contestants.nuts(problem)
    pilot = nuts(problem, _FIRST_SEED, _PILOT_S)
    rate = judge.sizes(pilot.draws)[1].min() / pilot.seconds[-1]
    each = min(LONGEST_S, 1.2 * wanted / max(rate, 1e-9)) / CHAINS
    chains = [nuts(problem, _FIRST_SEED + 1 + chain, each).draws for chain in range(CHAINS)]
    return judge.moments([pilot.draws, *chains])


def _key(problem: Problem, wanted: int) -> str:
    digest = hashlib.sha256(np.ascontiguousarray(problem.rows).data)
    versions = [importlib.metadata.version(name) for name in ("numpyro", "jax", "numpy")]
    settings = [problem.name, problem.prior.scale, CHAINS, wanted, LONGEST_S, *versions]
    digest.update(json.dumps(settings).encode())
    return digest.hexdigest()[:32]
