"""The gold references in datasets/gold: registry.yaml names them, a file of arrays each holds what is known.

Those of a person's own are files of the same kind in `gold/`, beside the `runs/` of a results folder: reports
of these runs find them there, by their settings.

They are of one posterior: dataset, model and prior with all their settings. As features may be computed on
another machine than the reference's, and a component may come out with the other sign, the reference keeps a
`sketch` of the features that it is of, and refuses others.
"""

import contextlib
import functools
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from flyrun.experiments.config import plugins
from flyrun.experiments.data import fingerprint
from flyrun.ground import archive, paths, schema
from flyrun.ground.errors import ConfigError, DataError
from flyrun.ground.schema import did_you_mean
from flyrun.tables.dataset import Dataset

PROBABILITIES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
#: what two computations of the same features may differ by, relative to the sketch's largest number
_ALIKE = 1e-6
_GROUPS = ("dataset", "model", "prior")


class Gold(NamedTuple):
    """What is known of a posterior, by coordinate (D,): of θ, or where classes may all be shifted alike, of θ
    less its mean over the classes."""

    mean: np.ndarray
    variance: np.ndarray
    mean_se: np.ndarray
    variance_se: np.ndarray
    kurtosis: np.ndarray
    quantiles: np.ndarray  # (7, D), at PROBABILITIES
    draws: np.ndarray  # (M, D) float32, unweighted
    sketch: np.ndarray  # of the features and the target
    facts: dict[str, Any]  # log_z, log_z_se, settings, coordinates, recipe, certificate

    @property
    def sd(self) -> np.ndarray:
        """(D,)."""
        return np.sqrt(self.variance)

    @property
    def floors(self) -> tuple[float, float]:
        """Mean squared error of the means, and of the variances, that the reference itself has, in the units
        of errors (report/sections/arena.py).
        """
        scale = np.sqrt(self.kurtosis - 1) * self.variance
        return float(np.mean(self.mean_se**2 / self.variance)), float(
            np.mean((self.variance_se / scale) ** 2)
        )


def folder() -> Path:
    """Where they lie."""
    return paths.datasets_dir() / "gold"


@functools.cache
def registry() -> dict[str, dict[str, Any]]:
    """Name -> title, problem, recipe, file, sha256; DataError where the registry cannot be read."""
    path = folder() / "registry.yaml"
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        detail = " ".join(str(error).split())
        raise DataError(f"{path}: cannot be read ({detail}); restore it or reinstall flyrun") from error


def own_folder(results_dir: str | Path) -> Path:
    """Where the references of a person's own lie, for the runs of a results folder."""
    return Path(results_dir).expanduser() / "gold"


def own_of(cell: Path) -> Path:
    """The same, by the folder of a cell of one of these runs."""
    return own_folder([*cell.absolute().parents][:5][-1])


def digest(cell: Path) -> str:
    """Digest of the registry, which names each file's own, and of what lies beside a cell's run."""
    registered = archive.sha256((folder() / "registry.yaml").read_bytes())
    stats = ((name, path.stat()) for name, path in _own(own_of(cell)).items())
    return " ".join([registered, *(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in stats)])


def _own(folder: Path | None) -> dict[str, Path]:
    return {path.stem: path for path in sorted(folder.glob("*.npz"))} if folder is not None else {}


def names(beside: Path | None = None) -> list[str]:
    """flyrun's references, then those of a folder of a person's own."""
    return list(dict.fromkeys([*registry(), *_own(beside)]))


def entry(name: str, beside: Path | None = None) -> dict[str, Any]:
    """The registry's entry; DataError listing the known names, those of that folder too."""
    known = registry()
    if name not in known:
        close = did_you_mean(name, names(beside))
        raise DataError(f"no reference is called {name!r}{close}; known: {', '.join(names(beside))}")
    return known[name]


def load(name: str, beside: Path | None = None) -> Gold:
    """A reference, its file verified, or one in the folder `beside`. DataError naming file and remedy."""
    if name not in registry() and name in _own(beside):
        return _read(_own(beside)[name])
    expected, path = entry(name, beside).get("sha256"), folder() / f"{name}.npz"
    remedy = f"flyrun gold build {name}"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); run `{remedy}`") from error
    if archive.sha256(content) != expected:
        raise DataError(f"{path}: is not the registered file; restore it, or run `{remedy}`")
    return from_bytes(content, str(path))


def _read(path: Path) -> Gold:
    try:
        return from_bytes(path.read_bytes(), str(path))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error}); remove it and build it anew") from error


def title(name: str) -> str:
    """What a reference is of; of a person's own its name."""
    return registry().get(name, {}).get("title", name)


@functools.lru_cache(maxsize=4)  # every arm of an arena asks for the same
def from_bytes(content: bytes, what: str) -> Gold:
    """A reference out of a file's bytes; DataError naming `what` where they are none."""
    arrays = archive.from_bytes(content, Gold._fields, what)
    facts = json.loads(arrays.pop("facts").tobytes().decode())
    return Gold(**arrays, facts=facts)


def to_bytes(gold: Gold) -> bytes:
    """The file's bytes, the same for the same reference."""
    text = json.dumps(gold.facts, ensure_ascii=False, sort_keys=True).encode()
    return archive.to_bytes({**gold._asdict(), "facts": np.frombuffer(text, np.uint8)})


def sketch(features: np.ndarray, target: np.ndarray) -> np.ndarray:
    """(D + 1,): sums of features and target with fixed weights of either sign, in float64.

    Other data, another order of rows or a column of the other sign have another one; rounding has not.
    """
    n = len(features)
    total = np.zeros(features.shape[1] + 1)
    for first in range(0, n, 65_536):
        rows = np.asarray(features[first : first + 65_536], np.float64)
        weight = np.cos(2.399963 * np.arange(first, first + len(rows)))
        total[:-1] += weight @ rows
        total[-1] += weight @ np.asarray(target[first : first + len(rows)], np.float64)
    return total / np.sqrt(n)


def check_data(gold: Gold, dataset: Dataset, name: str) -> None:
    """DataError unless the features are those that the reference is of."""
    sketched = sketch(dataset.features, dataset.target)
    if sketched.shape != gold.sketch.shape or np.abs(sketched - gold.sketch).max() > _ALIKE * max(
        1.0, np.abs(gold.sketch).max()
    ):
        again = gold.facts.get("command", f"flyrun gold build {name} out=FOLDER")
        raise DataError(
            f"reference {name}: is of other features than dataset={dataset.name} has here (other data, or "
            f"components of another sign); `{again}` makes one of these"
        )


def made_of(settings: dict[str, Any]) -> dict[str, str]:
    """What a posterior is made of besides its settings: digests of a person's file, and of the sources of
    other packages' dataset, likelihood and prior.
    """
    choices = {group: schema.build(group, settings[group]) for group in _GROUPS if settings.get(group)}
    sources = {
        group: plugins.identity(choice) for group, choice in choices.items() if plugins.is_foreign(choice)
    }
    dataset = choices["dataset"]
    return sources | ({"file": fingerprint(dataset)} if getattr(dataset, "path", None) else {})  # type: ignore[arg-type]


def matching(settings: dict[str, Any], beside: Path | None = None) -> tuple[str, Gold] | None:
    """Name and content of the reference of an arm's dataset, model and prior, by their settings; None where
    there is none. Those of the folder `beside` come first, if made of what these settings now stand for.
    """
    problem = {group: settings.get(group, {}) for group in _GROUPS}
    for name, path in _own(beside).items():
        gold = _read(path)
        alike = _placeless(gold.facts["settings"]) == _placeless(problem)
        with contextlib.suppress(ConfigError):  # of a package that is gone
            if alike and gold.facts["made_of"] == made_of(problem):
                return name, gold
    data = f"dataset={problem['dataset'].get('name')}"
    near = (name for name, row in registry().items() if data in row["problem"])
    return next(((name, gold) for name in near if (gold := load(name)).facts["settings"] == problem), None)


def _placeless(settings: dict[str, Any]) -> dict[str, Any]:
    """A person's file is the same wherever it lies: `made_of` has its digest."""
    dataset = {key: value for key, value in settings["dataset"].items() if key != "path"}
    return settings | {"dataset": dataset}
