"""What a scan says: what was read and is fitted, what moved and travelled, what certifies the draws."""

from collections import Counter
from typing import Any

import numpy as np

from flyrun.fitting import engine
from flyrun.fitting.groups.grouped_table import OfTable, OfTerms
from flyrun.fitting.lines import size as size_of
from flyrun.fitting.request import Request
from flyrun.fitting.scan import mappers
from flyrun.fitting.scan.joined_groups import File, Shards
from flyrun.fitting.scan.row_groups import tree
from flyrun.fitting.scan.row_weights import MOST_VARIANCE
from flyrun.fitting.scan.stages import Found
from flyrun.ground.schema import listing

_MOST_NAMED = 3  # columns that hold rows of the core


def lines(request: Request, shards: Shards, fitted: Found) -> list[str]:
    """What was read and what is fitted to it."""
    layout, target = fitted.layout, fitted.layout.target
    lost = f" ({layout.dropped:,} dropped for missing values)" if layout.dropped else ""
    model = f"{fitted.posterior.family.words} of {target.name}"
    if layout.task == "binary":
        against, level = target.levels or []
        model += f" = {level} ({int(fitted.counts[max(fitted.counts)]):,} rows) against {against}"
    if isinstance(fitted.posterior, OfTable | OfTerms):
        model += f", with {fitted.posterior.words}"
    chosen = f" of {shards.of:,}" if shards.of else ""
    files = f"{len(shards.files)} files" + (
        f" of {len(shards.files) + shards.skipped}" if shards.skipped else ""
    )
    where = f", where {request.typed_table.where}" if request.typed_table.where else ""
    columns = size_of(layout, fitted.posterior)
    return [f"{request.file}: {files}, {layout.rows:,} rows{chosen}{where}{lost}, {columns}", model]


def size(shards: Shards, columns: list[str]) -> str:
    """How much will be read."""
    files = f"{len(shards.files):,} file{'s' if len(shards.files) > 1 else ''}"
    groups = sum(len(block.each) for block in shards.blocks)
    many = f"{len(columns):,} column{'s' if len(columns) != 1 else ''}"
    return f"{files}, {groups:,} row groups, {shards.rows:,} rows, {many}"


def in_bytes(number: float) -> str:
    """In the unit that people say."""
    power = next((power for power in (4, 3, 2) if number >= 1000**power), 1)
    return f"{number / 1000**power:.3g} {('kB', 'MB', 'GB', 'TB')[power - 1]}"


def counts(shards: Shards, fitted: Found, mapper: mappers.Mapper, pilot: int) -> dict[str, Any]:
    """What was read and moved, for fit.json. seconds: of CPUs, for looks alone; bytes: of the files."""
    rows_of = Counter[File]()
    for block in shards.blocks:
        for each in block.each:
            rows_of[each.file] += each.rows
    draws, whole = fitted.answer, tree(list(fitted.foretold)) if fitted.foretold else None
    return {
        "files": [
            {"path": file.path, "bytes": file.size, "footer": file.footer, "rows": rows_of.get(file, 0)}
            | ({"where": file.where} if file.where else {})
            for file in shards.files
        ],
        "rows": shards.rows,
        "rows_read": fitted.rows_read,
        "bytes": shards.size,
        "seconds": mapper.seconds,
        "kernels": sorted(mapper.kernels),
        "moved_bytes": mapper.moved,
        "pilot": pilot,
        "core": draws.core,
        "drawn": draws.travelled,
        "row_bytes": draws.nbytes,
        "scans": fitted.scans,
        "effective": draws.found.effective,
        "planned": draws.planned * len(draws.found.x),
        "variance": draws.variance,
        "folds": [{"rows": fold.copies, "mean": fold.mean, "error": fold.error} for fold in fitted.foretold],
        "held_out": {"mean": whole.mean, "error": whole.error} if whole else {},
    }


def foretold(counts: dict[str, Any]) -> list[str]:
    """How well each fold is predicted by all others. counts: as of `_counts`."""
    if not (folds := counts["folds"]):
        return []
    whole, means = counts["held_out"], [fold["mean"] for fold in folds]
    return [
        f"{len(folds)} folds of row groups, each predicted by all others: log density {whole['mean']:.6g} ± "
        f"{whole['error']:.2g} a row; of the folds {min(means):.6g} to {max(means):.6g}"
    ]


def moved(fitted: Found, counts: dict[str, Any]) -> list[str]:
    """What was read, by whom, and which rows travelled. counts: as of `_counts`."""
    times, pilot = counts["rows_read"] / counts["rows"], counts["pilot"]
    for_all = f" for all {counts['levels']:,} posteriors" if "levels" in counts else ""
    read = (
        f"read {times:.2f} times: {in_bytes(times * counts['bytes'])} in {counts['seconds']:,.0f} "
        f"CPU-seconds of {listing(counts['kernels'])}; {in_bytes(counts['moved_bytes'])} moved here{for_all}"
    )
    if len(counts["kernels"]) > 1:
        read += ", and last bits depend on who looked at which row group"
    if fitted.came:
        return [read, f"{fitted.came}; besides, {pilot:,} rows of the pilot"]
    travelled = counts["core"] + counts["drawn"]
    if not travelled:
        return [read, f"no row travelled but {pilot:,} of the pilot"]
    share = 100.0 * travelled / max(fitted.layout.rows, 1)
    kept = f"{counts['core']:,} kept exactly"
    if counts["core"]:
        kept += f" ({_far_columns(fitted)})"
    drawn = f"{counts['drawn']:,} drawn in proportion to what second order leaves out of each"
    rows = f"{travelled:,} rows travelled ({share:.3g} %, {in_bytes(counts['row_bytes'])})"
    return [read, f"{rows}: {kept}, {drawn}; besides, {pilot:,} of the pilot"]


def _far_columns(fitted: Found) -> str:
    """How many rows of the core have their largest part of a predictor's variance by each column."""
    post = fitted.posterior
    coefficients = fitted.answer.found.x[:, : post.n_coefficients]
    sd = coefficients.std(axis=0).reshape(post.linear, post.width).max(axis=0)
    names = np.array(fitted.layout.names)
    most = np.argmax(np.abs(post.rows.features) * sd, axis=1)
    place, count = np.unique(most, return_counts=True)
    order = np.argsort(-count, kind="stable")
    shown = [f"{count[k]:,} for {names[place[k]]}" for k in order[:_MOST_NAMED]]
    more = f" and {len(order) - _MOST_NAMED:,} more columns" if len(order) > _MOST_NAMED else ""
    return ", ".join(shown) + more


def how(fitted: Found) -> str:
    """What the draws are worth, and what certifies them."""
    draws, weighted = fitted.answer, fitted.answer.found
    if weighted.independent:
        return f"{len(weighted.x):,} independent draws in closed form"
    if not draws.travelled:
        return engine.how(fitted.posterior, weighted)
    mean, covariance = weighted.moments()
    moved = np.abs(mean - weighted.x.mean(axis=0)) / np.sqrt(np.diag(covariance))
    return (
        f"{len(weighted.x):,} weighted draws, {weighted.effective:,.0f} effective "
        f"({draws.planned * len(weighted.x):,.0f} planned); log weights vary by {draws.variance:.2g}, as two "
        f"halves of the sample tell (at most {MOST_VARIANCE:g}); weights moved no mean by more than "
        f"{moved.max():.2g} sd"
    )
