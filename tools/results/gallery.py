"""What each published run found, for docs/results.md and results/measured/index.html."""

import base64
import hashlib
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Template

from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import listing
from tools.results.published import MEASURED, Row, rows

_WIDTH = 440  # pixels of a thumbnail
_MOST_ROWS = 12
SENTENCES = Path(__file__).with_name("experiments.yaml")
_THUMBNAIL = re.compile(r'data-figure="(\w+)" src="data:image/png;base64,([^"]+)"')


@dataclass(frozen=True)
class Entry:
    """A published run, or a page beside them. table: lines of Markdown; more: rows that it has beyond these.

    page, figure: paths below results/measured; figure "" for none. minutes: of one core, sampling.
    older: why it is not of the experiment as it is now, "" where it is.
    """

    name: str
    part: str
    title: str
    question: str
    found: str
    page: str
    figure: str
    command: str
    date: str
    minutes: float
    table: list[str]
    more: int
    older: str


def entries(environment: Any) -> list[Entry]:
    """All that is published, in the order of experiments.yaml. ConfigError where a run is missing there."""
    told = yaml.safe_load(SENTENCES.read_text("utf-8"))
    there = {path.parent.name for path in MEASURED.glob("*/report.md")}
    if missing := sorted(there - set(told)):
        raise ConfigError(f"{SENTENCES}: says nothing of {listing(missing)}, published in {MEASURED}")
    found, part = [], ""
    for name, own in told.items():
        part = own.get("part", part)
        found.append(_entry(name, part, own, environment))
    return found


def _entry(name: str, part: str, own: dict[str, str], environment: Any) -> Entry:
    is_run = (MEASURED / name).is_dir()
    page = f"{name}/report.md" if is_run else f"{name}.md"
    text = (MEASURED / page).read_text("utf-8")
    measured = rows(MEASURED / name / "table.csv" if is_run else MEASURED / f"{name}.csv")
    sentence: Template = environment.from_string(own["found"])
    table, more = _table(text, own["table"], MEASURED / page)
    figure = own.get("figure", "")
    return Entry(
        name=name,
        part=part,
        title=re.sub(r"\\(.)", r"\1", text.partition("\n")[0].removeprefix("# ")),
        question=own["question"],
        found=sentence.render(a={one["arm"]: one for one in measured} if is_run else {}).strip(),
        page=page,
        figure=f"{name}/figures/{figure}.png" if figure else "",
        command=own.get("command") or _command(text, MEASURED / page),
        date=re.findall(r"\b20\d\d-\d\d-\d\d", text)[-1],
        minutes=sum(map(_seconds, measured)) / 60 if is_run else 0.0,
        table=table,
        more=more,
        older=own.get("older", ""),
    )


def _command(text: str, path: Path) -> str:
    found = re.search(r"## Run it again\n\n```\n(.*)\n```", text)
    if not found:
        raise ConfigError(f"{path}: no command stands under Run it again; publish it anew")
    # beside runs of the usual length, as `make full` does
    beside = "" if "results_dir=" in found[1] else " results_dir=results/runs/full"
    return found[1].replace("protocol=full", f"protocol=full{beside}")


def _table(text: str, wanted: str | list[str], path: Path) -> tuple[list[str], int]:
    """The table of a report whose title begins so, or so, its first rows, and how many more it has."""
    for title in [wanted] if isinstance(wanted, str) else wanted:
        if (start := text.find(f"\n**{title}")) >= 0:
            break
    else:
        titles = re.findall(r"^\*\*(.*)\*\*$", text, re.MULTILINE)
        raise ConfigError(f"{SENTENCES}: {path} has no table {wanted!r}, but {listing(titles)}")
    lines = text[start:].split("\n\n")[1].splitlines()
    return lines[: 2 + _MOST_ROWS], max(0, len(lines) - 2 - _MOST_ROWS)


def _seconds(row: Row) -> float:
    """Seconds that the sampling of an arm's seeds took, on one core."""
    known = {key: value for key, value in row.items() if isinstance(value, float)}
    each = 1e-6 * known.get("iterations", 0.0) * known.get("us_per_iter", 0.0)
    each = each or 1e-6 * known.get("updates", 0.0) * known.get("us_per_update", 0.0)
    each = each or known.get("run_seconds") or known.get("total_seconds") or known.get("seconds", 0.0)
    return known.get("seeds", 1.0) * (each + known.get("setup_s", 0.0))


def duration(minutes: float) -> str:
    """Minutes of one core, in words."""
    if minutes < 1:
        return "less than a minute"
    if minutes >= 100:
        return f"{minutes / 60:.1f} hours"
    return f"{minutes:.0f} minutes" if minutes >= 1.5 else "a minute"


def thumbnails(found: list[Entry], before: str) -> dict[str, tuple[str, str]]:
    """Figure -> (digest, PNG as base64), those of a page made before where the figure is the same.

    So the page does not depend on which version of an encoder wrote it.
    """
    kept = dict(_THUMBNAIL.findall(before))
    made = {}
    for figure in dict.fromkeys(entry.figure for entry in found if entry.figure):
        data = (MEASURED / figure).read_bytes()
        digest = hashlib.sha256(data).hexdigest()[:12]
        made[figure] = digest, kept.get(digest) or _thumbnail(data)
    return made


def _thumbnail(data: bytes) -> str:
    from PIL import Image  # matplotlib's own dependency, here only

    image = Image.open(io.BytesIO(data)).convert("RGB")
    image.thumbnail((_WIDTH, 2 * _WIDTH), Image.Resampling.LANCZOS)
    small = io.BytesIO()
    image.quantize(24).save(small, format="png", optimize=True)
    return base64.b64encode(small.getvalue()).decode()
