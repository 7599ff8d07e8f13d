"""Long plain Gibbs runs: mean energy and neighbours' agreement, what samplers of graphs are held against.

    python results/reference/long_gibbs/make.py [name ...]

Writes <name>.json beside this file, for each experiment below: per chain, the means of ⟨ζ⟩/Ψ and of the share
of neighbouring pairs of one value, after burn-in. The chains are independent, so the spread over them gives
the standard errors; batch means within chains give them a second time, and both are printed. Some minutes.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.samplers.method import prepare

GRAPHS = {"ising": "ising_min_gibbs", "potts": "potts_mgpmh"}
SEEDS, SWEEPS, BURN_IN, CHUNK = 16, 25_000, 1_000, 500
# Apart from any seed that an experiment takes for its own arms.
FIRST_SEED = 9_000_000


def chain(program, seed):
    """Batch means of (energy, agreement), one row per CHUNK sweeps after burn-in."""
    state, rows = program.init(seed), []
    for _ in range((BURN_IN + SWEEPS) // CHUNK):
        state, draws = program.advance(state, CHUNK)
        rows.append([draws["energy"].mean(), draws["agreement"].mean()])
    return np.array(rows[BURN_IN // CHUNK :])


def standard_errors(batches):
    """Of the mean over all chains, from the spread of chains and from that of all batches: (2, columns)."""
    chains, flat = batches.mean(axis=1), batches.reshape(-1, batches.shape[2])
    return np.stack([values.std(axis=0, ddof=1) / len(values) ** 0.5 for values in (chains, flat)])


def make(name, folder):
    """Run and write one reference."""
    words = [f"experiment={GRAPHS[name]}", "only=gibbs", "protocol.thin=1"]
    arm = compose_job([*words, f"protocol.iterations={BURN_IN + SWEEPS}"]).arms[0]
    with tempfile.TemporaryDirectory() as scratch:
        program = prepare(arm, Path(scratch))
    batches = np.array([chain(program, FIRST_SEED + k) for k in range(SEEDS)])
    batches[:, :, 0] /= program.facts().more["total_energy_bound"]
    for what, errors in zip(("energy", "agreement"), standard_errors(batches).T, strict=True):
        print(f"{name} {what}: standard error {errors[0]:.2g} by chains, {errors[1]:.2g} by batches")
    settings = {group: vars(getattr(arm, group)) for group in ("dataset", "model")}
    found = {
        "made_by": "results/reference/long_gibbs/make.py",
        **settings,
        "sweeps": SWEEPS,
        "burn_in": BURN_IN,
        "energy": batches[:, :, 0].mean(axis=1).tolist(),
        "agreement": batches[:, :, 1].mean(axis=1).tolist(),
    }
    (folder / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for wanted in sys.argv[1:] or GRAPHS:
        make(wanted, Path(__file__).resolve().parent)
