"""A fit's folder: fit.json, what it says, and posterior.nc, its draws. Nothing else writes or reads these.

One file may hold both, a model: a ZIP archive, without pickle. A service that only reads imports little: what
fits and writes comes late.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import shlex
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import h5py
import numpy as np

from flyrun import __version__
from flyrun.families.family import family
from flyrun.fitting import fitted_draws
from flyrun.fitting.groups.stored_curves import Drawn
from flyrun.fitting.groups.stored_effects import Effects, columns_of, stored_as
from flyrun.fitting.groups.stored_effects import read as read_effects
from flyrun.ground import addresses, files, netcdf, run_files, sent_runs
from flyrun.ground.errors import ConfigError
from flyrun.tables.layout import Layout

if TYPE_CHECKING:
    from flyrun.families.family import Family
    from flyrun.fitting.engine import Answer
    from flyrun.fitting.question import Question
    from flyrun.fitting.request import Request
    from flyrun.tables.options import Table

MODEL_ENDING = ".flyrun"  # of the file that `save` writes
_MODEL, _FORMAT = "model.json", 1  # of a model: what it is, and the version of what is in it
FIT = "fit.json"  # what a fit found
_OF = "column_of_"  # and a variable's name: its axis
GROUPS = "groups.csv"  # groups' effects, all levels of all factors
SMOOTHS = "smooths.csv"  # smooth curves with their bands
#: draws by name
Draws = dict[str, np.ndarray]


def about(folder: Path) -> dict[str, Any]:
    """What a fit's fit.json says, in its folder or its model. Raises ConfigError where no finished fit is."""
    if folder.is_file():
        return _about_model(folder)
    if not is_fit(folder) or not (folder / run_files.POSTERIOR).is_file():
        raise ConfigError(f"{folder}: holds no finished fit; name the folder that `flyrun fit` wrote")
    return _read(folder)


def is_fit(folder: Path) -> bool:
    """Whether a fit is in a folder."""
    return bool(_read(folder))


def _read(folder: Path) -> dict[str, Any]:
    """fit.json; nothing where it is damaged or not there, or an experiment of the same name ran later."""
    if not (folder / FIT).exists() or _arms(folder):
        return {}
    with contextlib.suppress(OSError, files.DamagedFile):
        return files.read_json(folder / FIT)
    return {}


def _arms(folder: Path) -> list[Any]:
    """Of an experiment that is in a folder."""
    return run_files.read_run(folder)["arms"] if (folder / run_files.RUN).exists() else []


def save(folder: Path, path: Path) -> None:
    """Write a model: all that a fit's folder, or its model, knows, in one file.

    Raises ConfigError for a file of another ending, as of a table, StoreError where it cannot be written.
    """
    if path.suffix != MODEL_ENDING:
        raise ConfigError(f"{path}: a model ends in {MODEL_ENDING}; name it {path.with_suffix(MODEL_ENDING)}")
    contents = {_MODEL: json.dumps({"format": _FORMAT, "flyrun": __version__}).encode()}
    contents |= {FIT: json.dumps(about(folder)).encode(), run_files.POSTERIOR: opened(folder).read()}

    def write(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in contents.items():
                archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)

    with files.writing(path):
        files.write(path, write)


def _about_model(path: Path) -> dict[str, Any]:
    """fit.json of a model. Raises ConfigError where the file is none."""
    kind = json.loads(_member(path, _MODEL))
    if kind["format"] > _FORMAT:
        raise ConfigError(
            f"{path}: was written by flyrun {kind['flyrun']}; install that version or a later one"
        )
    return json.loads(_member(path, FIT))


def _member(path: Path, name: str) -> bytes:
    """What a model has under a name, checked by its digest there."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.read(name)
    except (OSError, KeyError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ConfigError(
            f"{path}: is no whole model ({' '.join(str(error).split())}); write it with `fit.save(...)`, or "
            "name the folder that `flyrun fit` wrote"
        ) from error


def opened(folder: Path) -> BinaryIO:
    """posterior.nc of a folder or of a model, to read; close it."""
    if folder.is_file():
        return io.BytesIO(_member(folder, run_files.POSTERIOR))
    return open(folder / run_files.POSTERIOR, "rb")


def digest(folder: Path) -> str:
    """Of all of a fit, or of its model, that predictions depend on."""
    whole = about(folder)
    of = json.dumps([whole[key] for key in ("layout", "link", "settings")])
    with opened(folder) as file:
        return hashlib.sha256(of.encode() + file.read()).hexdigest()[:16]


def draws(folder: Path) -> tuple[Draws, Draws]:
    """Draws of even weight, (C, T, ...) by name, and those with weights, (S, ...), if there are such."""
    with opened(folder) as source, netcdf.read(source) as file:
        even, weighted = (
            {name: np.asarray(values) for name, values in file[group].items()} if group in file else {}
            for group in ("posterior", "weighted")
        )
    return even, weighted


def fitted(folder: Path) -> fitted_draws.Fitted:
    """The fit in a run's folder, or of a model. Raises ConfigError where there is none."""
    told = about(folder)
    try:
        layout, model = Layout.from_dict(told["layout"]), family(told["settings"]["model"])
    except ImportError as error:
        name = told["settings"]["model"]
        raise ConfigError(f"{folder}: model {name} is of a package that is not installed here") from error
    even, _ = draws(folder)
    with opened(folder) as source, netcdf.read(source) as file:
        effects = read_effects(file, told["settings"], layout)
    return fitted_draws.of_draws(layout, told["link"], model, told["settings"], even, effects)


@contextlib.contextmanager
def alone(request: Request, sends: bool = True) -> Iterator[Request]:
    """Hold the folder of a request: two fits of one name would write over each other. The request by a folder
    of this machine, where its results are to be at an address, to which they are sent at the end.

    A folder that stays empty goes again. Raises StoreError where another process holds it, or it cannot be
    written.
    """
    from flyrun.fitting.request import ELSEWHERE  # late: as below
    from flyrun.ground.lock import locked  # late

    here = replace(request, results_dir=sent_runs.local(request.results_dir))
    folder = here.folder
    files.refuse_unwritable(folder, ELSEWHERE)
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    with contextlib.ExitStack() as stack:
        for place in reversed(missing):
            stack.callback(_remove_empty, place)
        with files.writing(folder, ELSEWHERE):
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(folder / "lock"))
        if sends and addresses.is_address(request.results_dir):
            stack.enter_context(sent_runs.exchanged(request.results_dir, folder))
        yield here


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def asked(request: Request) -> Question:
    """The question of a request for one table, whose answer may be written. Errors: as of both below."""
    from flyrun.fitting import question  # late: what is read needs none of it

    made = question.of(request)
    refuse_to_replace(made.request, made.table, made.family)
    return made


def refuse_to_replace(request: Request, table: Table, one: Family) -> None:
    """Raise ConfigError where a fit of other settings, or an experiment, is in the folder of a request."""
    from flyrun.fitting import question  # late: as above

    folder, free = request.folder, f"--name {run_files.free_name(request.folder)} keeps both"
    if _arms(folder):
        raise ConfigError(f"{folder}: holds an experiment; {free}")
    before = _read(folder).get("settings")
    now = question.settings(request, table, one)
    if before and not request.fresh and (changes := run_files.changes(before, now)):
        raise ConfigError(
            f"{folder}: holds finished results with other settings ({changes}); {free}, --fresh replaces them"
        )


def write(answer: Answer) -> Path:
    """Write an answer's posterior.nc, fit.json and run.json, of which the report is made; their folder."""
    from flyrun.fitting import priors, ratios  # late: as above
    from flyrun.fitting.groups.grouped_table import OfTable  # late
    from flyrun.fitting.request import ELSEWHERE  # late
    from flyrun.ground import environment, progress  # late

    of = answer.question
    request, layout, posterior = of.request, of.layout, of.posterior
    folder, own = request.folder, of.family
    rows = answer.rows
    if request.exp:
        rows = ratios.beside(rows, answer.even["beta"], own.link, layout)
    fit = {
        "settings": of.settings,
        "file": str(of.table.path),
        "lines": of.about,
        "how": answer.how,
        "caveats": answer.caveats,
        "scan": answer.scan,
        "layout": asdict(layout),
        "link": own.link,
        "chains": answer.chains,
        "agreed": not answer.doubt,
        "standardize": of.table.standardize,
        "queries": posterior.queries,
        "coefficients": priors.beside(rows, of.priors),
        "predictive": _predictive(answer),
        "explained": _explained(answer),
    }
    if smooths := _curves(answer):
        fit["smooths"] = smooths
    if groups := _groups(answer):
        nodes = {"nodes": [posterior.nodes, posterior.steps]} if isinstance(posterior, OfTable) else {}
        fit["groups"] = [factor.shown(columns_of(factor.bar, layout)) | nodes for factor in groups]
    entry = {
        "name": folder.name,
        "experiment": folder.name,
        "title": f"{Path(request.file).name}: {layout.target.name}",
        "command": shlex.join(["flyrun", "fit", *request.words]),
        "started": progress.now(),
        "arms": [],
        "environment": environment.describe() | {"finished": progress.now()},
    }
    attrs = {"flyrun": __version__, "file": fit["file"], "target": layout.target.name, "model": own.name}
    with files.writing(folder, ELSEWHERE):
        folder.mkdir(parents=True, exist_ok=True)
        further = {stored_as(place): one.stored() for place, one in enumerate(answer.groups)}
        _write_draws(folder / run_files.POSTERIOR, answer.even, answer.weighted, layout, attrs, further)
        files.write_json(folder / FIT, fit)
        if groups:
            import pandas as pd  # late: half a second

            tables = pd.concat([factor.rows_of_levels(columns_of(factor.bar, layout)) for factor in groups])
            files.write_text(folder / GROUPS, tables.to_csv(index=False, lineterminator="\n"))
        else:
            (folder / GROUPS).unlink(missing_ok=True)
        if smooths:
            files.write_text(folder / SMOOTHS, _of_smooths(smooths))
        else:
            (folder / SMOOTHS).unlink(missing_ok=True)
        files.write_json(folder / run_files.RUN, entry)
    return folder


def _curves(answer: Answer) -> list[dict[str, Any]]:
    """Smooth curves, as reports show them."""
    layout, shown = answer.question.layout, list[dict[str, Any]]()
    scale = {number.name: number.scale for number in answer.question.posterior.auxiliary}
    for each in answer.groups:
        if isinstance(each, Drawn):
            of = each.bar.of
            beta, part = answer.even[of or "beta"], layout.parameters.get(of, layout)
            unit = {"unit": f"{scale[of]} {of}".strip()} if of else {}
            curves = each.shown(beta.reshape(-1, beta.shape[-1]), part.names)
            shown += [curve | unit for curve in curves]
    return shown


def _of_smooths(curves: list[dict[str, Any]]) -> str:
    """As a file: a row a curve and place."""
    text, keys = io.StringIO(), ("value", "mean", "sd", "low", "high")
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["smooth", "at", "column", *keys])
    for curve in curves:
        about = curve["smooth"], curve["at"], curve["column"]
        for numbers in zip(*(curve[key] for key in keys), strict=True):
            rows.writerow([*about, *(f"{number:.6g}" for number in numbers)])
    return text.getvalue()


def _predictive(answer: Answer) -> dict[str, Any]:
    """What a fit says of its own rows; nothing where these are not at hand or not whole."""
    from flyrun.fitting import predictive_checks  # late: as above

    of = answer.question
    if of.dataset is None or of.dataset.unseen:
        return {}
    return predictive_checks.of(of.dataset, of.posterior, of.layout, answer.even, answer.groups)


def _groups(answer: Answer) -> tuple[Effects, ...]:
    """Effects of groups."""
    return tuple(factor for factor in answer.groups if isinstance(factor, Effects))


def _explained(answer: Answer) -> list[dict[str, Any]]:
    """What groups explain; nothing without them, and where rows are not whole."""
    from flyrun.fitting import explained  # late: as above
    from flyrun.fitting.groups.grouped_table import OfTable  # late
    from flyrun.fitting.groups.terms_table import OfTerms  # late

    of = answer.question
    if of.dataset is None or of.dataset.unseen or not isinstance(of.posterior, OfTable | OfTerms):
        return []
    return explained.of(of.dataset, of.posterior, of.layout, answer.even, answer.groups)


def _write_draws(
    path: Path,
    even: dict[str, np.ndarray],
    weighted: dict[str, np.ndarray],
    layout: Layout,
    attrs: dict[str, Any],
    further: dict[str, tuple[dict, dict]],
) -> None:
    """A netCDF tree: `posterior`, draws (C, T, ...) of even weight, and `weighted`, (S, ...), if any.

    further: other groups of the file, each its axes and its variables over the first of them.
    """
    own: dict[str, Any] = {"coefficient": layout.names[: even["beta"].shape[-1]]}
    if even["beta"].ndim == 4:
        own = {"class": (layout.target.levels or [])[1:]} | own
    own |= {f"{_OF}{name}": its.names for name, its in layout.parameters.items()}
    chains, length = even["beta"].shape[:2]
    groups = {"posterior": ({"chain": range(chains), "draw": range(length)} | own, even)}
    if weighted:
        groups["weighted"] = ({"draw": range(len(weighted["beta"]))} | own, weighted)
    _write(path, attrs, groups | further)


def _write(path: Path, attrs: dict[str, Any], groups: dict[str, tuple[dict, dict]]) -> None:
    """A netCDF file of groups, each its axes and its variables over the first of them."""
    size = sum(values.nbytes for _, variables in groups.values() for values in variables.values())
    with files.replacing(path) as temporary:
        files.reserve(path.parent, int(1.2 * size) + (1 << 20))
        with netcdf.create(temporary) as file:
            file.attrs.update(attrs)
            for name, (axes, variables) in groups.items():
                _write_group(netcdf.group(file, name), axes, variables)


def _write_group(group: h5py.Group, axes: dict[str, Any], variables: dict[str, np.ndarray]) -> None:
    """Variables over as many of these axes as they have, the first ones, but last over one called for them if
    there is one; each axis with its values.
    """
    for name, along in axes.items():
        netcdf.dimension(group, name, along)
    shared = tuple(name for name in axes if not name.startswith(_OF))
    for name, values in variables.items():
        axis = f"{_OF}{name}"
        along = (*shared[: values.ndim - 1], axis) if axis in axes else shared[: values.ndim]
        netcdf.variable(group, name, along, values.dtype)[:] = values
