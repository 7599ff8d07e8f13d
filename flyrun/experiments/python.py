"""`flyrun.run` and `flyrun.posterior`: an experiment's table and draws, or its posterior, as an object."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.runner import store
from flyrun.ground.errors import ConfigError, FlyrunError
from flyrun.ground.exit_codes import DONE
from flyrun.ground.schema import did_you_mean, listing

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from flyrun.experiments.models.metered import Posterior


def run(experiment: str, overrides: Sequence[str] = (), config_dirs: Sequence[str | Path] = ()) -> "Run":
    """Run an experiment, as `flyrun experiment=NAME OVERRIDES` does; what is stored is not run again.

    overrides: as typed, such as ["protocol=smoke", "only=[regular]"]. config_dirs: further folders with
    options. Raises ConfigError or DataError for what you can mend, and FlyrunError where a cell fails.
    """
    from flyrun.experiments.report.build import build, summarise  # late: pandas
    from flyrun.experiments.runner.launch import run as run_cells  # late: numba

    job = compose_job([f"experiment={experiment}", *overrides], config_dirs)
    result = run_cells(job, None, summarise=summarise)
    if result.exit_code != DONE:
        problems = "; ".join(cell.message for cell in result.of("failed", "lost"))
        raise FlyrunError(f"{experiment}: {problems or 'interrupted'}; what was finished is kept")
    build(result.run_dir)
    return Run(result.run_dir)


def posterior(
    experiment: str | None = None,
    overrides: Sequence[str] = (),
    arm: str | None = None,
    needs_map: bool = False,
    config_dirs: Sequence[str | Path] = (),
) -> "Posterior":
    """The posterior of an experiment's arm, by default the first, or of overrides alone. It counts its reads.

    overrides: as typed, such as ["dataset=mnist_7v9", "model=logistic", "prior=gaussian"]. needs_map: whether
    its mode is looked for. Raises ConfigError or DataError for what you can mend.
    """
    from flyrun.experiments.models.metered import Posterior  # late: numba
    from flyrun.experiments.models.problem import bind  # late

    start = [f"experiment={experiment}"] if experiment else ["sampler=hmc", "bound=none"]
    arms = {job_arm.name: job_arm for job_arm in compose_job([*start, *overrides], config_dirs).arms}
    chosen = arms[_known(arm or next(iter(arms)), list(arms))]
    if chosen.model.kind != "rows":
        raise ConfigError(f"model={chosen.model.name}: its data are no rows; choose a model of rows")
    with tempfile.TemporaryDirectory(prefix="flyrun-posterior-") as folder:
        return Posterior(chosen, bind(chosen, Path(folder), needs_map))


class Run:
    """A finished run. folder: where its files are, as results/runs/NAME.

    Raises StoreError where that is none, or is a fit's.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self._about = store.read_chains(self.folder)

    @property
    def arms(self) -> list[str]:
        """Names of the arms, in the report's order."""
        return [arm["name"] for arm in self._about["arms"]]

    @property
    def table(self) -> "pd.DataFrame":
        """The report's table: a row an arm, named by it; unrounded, in the units of table.csv."""
        import pandas as pd  # late

        rows = json.loads((self.folder / "table.json").read_text(encoding="utf-8"))["rows"]
        return pd.DataFrame(rows).set_index("arm")

    def draws(self, arm: str) -> "list[xr.DataTree]":
        """What each seed's chain left, for ArviZ. Raises ConfigError where there is no such arm."""
        _known(arm, self.arms)
        return [cell.tree() for cell in store.open_cells(self.folder) if cell.arm == arm]

    @property
    def report(self) -> Path:
        """The page that a browser shows."""
        return self.folder / "report.html"

    def __repr__(self) -> str:
        """Where it is, and its arms."""
        return f"Run({str(self.folder)!r}): {listing(self.arms)}"


def _known(arm: str, arms: list[str]) -> str:
    """An arm's name; raises ConfigError where there is none of it."""
    if arm not in arms:
        raise ConfigError(f"{arm}: no such arm{did_you_mean(arm, arms)}; there are {listing(arms)}")
    return arm
