"""flyrun fit: a table of one's own to a posterior."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flyrun.cli import screen as screens
from flyrun.cli import verbs
from flyrun.cli.messages import explain
from flyrun.cli.options import number, take
from flyrun.config.arm import GROUPS
from flyrun.config.schema import did_you_mean, listing, quoted
from flyrun.errors import ConfigError, FlyrunError
from flyrun.fit.request import KEYS, LISTS, UNITS, Budget, Clock, Request, dashed
from flyrun.runner import progress

_MODELS = ("logistic", "softmax", "student_t")
CHOICES = {"model": _MODELS, "missing": ("refuse", "drop"), "decimal": (".", ",")}
#: all that can be typed
OPTIONS = (*map(dashed, KEYS), "--fresh", "--check", *screens.FLAGS)


def run(words: list[str]) -> int:
    """Fit a table."""
    if not words:
        print(verbs.help_of("fit"))
        return 2
    output, words = screens.take(words)
    screen = screens.Screen(output)
    try:
        request = parse(words)
        if request.check:
            return _check(request, screen)
        clock = Clock()
        from flyrun.fit.second_process import SecondProcess  # late: errors in the words come at once

        with SecondProcess() as beside:
            from flyrun.fit.choose import problem  # late: the other process has begun
            from flyrun.fit.rounds import fit  # late: as above

            code = fit(request, problem(request), clock, screen, beside)
    except Exception as error:
        code = explain(error)
        screen.tell("error", text=" ".join(str(error).split()))
    screen.tell("ended", exit_code=code)
    return code


def _check(request: Request, screen: screens.Screen) -> int:
    """Say what the columns are taken for, and fit nothing."""
    from flyrun.fit.choose import look  # late: numba

    for line in look(request):
        progress.display(screen.console, 0).say(line)
    screen.tell("ended", exit_code=0)
    return 0


def parse(words: Sequence[str]) -> Request:
    """Read the words after `fit`, those on the output taken. Raises ConfigError naming word and remedy."""
    found, given = take("fit", words, KEYS, ("fresh", "check"), LISTS, _stands_plain)
    overrides = [word for word in found if "=" in word and word.partition("=")[0].partition(".")[0] in GROUPS]
    plain = [word for word in found if word not in overrides]
    if len(plain) != 1:
        what = f"{plain[1]}: one file is enough" if plain else "a file is missing"
        raise ConfigError(f"fit: {what}; as in `flyrun fit mine.csv --target COLUMN`")
    if "target" not in given:
        raise ConfigError(
            "fit: name the column to explain, as in "
            f"`flyrun fit {quoted(plain[0])} --target {quoted((columns(plain[0]) or ['COLUMN'])[-1])}`"
        )
    for key, known in CHOICES.items():
        if given.get(key) not in (None, *known):
            close = did_you_mean(given[key], known)
            raise ConfigError(f"fit --{key} {given[key]}: must be {listing(known, 'or')}{close}")
    table: dict[str, Any] = {key: _names(given[key]) for key in LISTS if key in given}
    table |= {key: given[key] for key in ("missing", "decimal", "encoding") if key in given}
    if "rows" in given:
        table["limit"] = _whole("rows", given["rows"])
    return Request(
        file=plain[0],
        target=given["target"],
        model=given.get("model"),
        table=table,
        prior_scale=number(
            "prior_scale", given.get("prior_scale", "2.5"), lambda x: 0 < x < math.inf, "a number above 0"
        ),
        budget=_budget(given.get("budget", "10m")),
        name=given.get("name"),
        results_dir=given.get("results_dir", "results"),
        workers=_whole("workers", given["workers"]) if "workers" in given else None,
        fresh="fresh" in given,
        check="check" in given,
        overrides=tuple(overrides),
        words=tuple(word for word in words if word != "--fresh"),
    )


def _stands_plain(word: str) -> bool:
    """Whether KEY=VALUE is no option: an arm's setting, or the name of a file."""
    return not word.startswith("-") and word.partition("=")[0] not in KEYS


def _names(text: str) -> tuple[str, ...]:
    """The names in a list with commas; those that hold a comma stand in quotes."""
    found = re.findall(r'\s*"((?:[^"]|"")+)"\s*(?:,|$)|([^,]+)', text)
    names = (whole.replace('""', '"') or plain.strip() for whole, plain in found)
    return tuple(name for name in dict.fromkeys(names) if name)


def columns(file: str) -> list[str]:
    """Columns of a file; none where it cannot be read, which is told later."""
    from flyrun.data.table import pieces  # late: pandas takes half a second, and Tab comes here

    try:
        return pieces.names(Path(file).expanduser())
    except FlyrunError:
        return []


def _budget(text: str) -> Budget:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip().lower())
    value = float(found[1]) if found else 0.0
    if found is None or value <= 0 or (not found[2] and value != int(value)):
        raise ConfigError(
            f"fit --budget {text}: must be a time, as 90s, 10m or 2h, or a number of iterations, as 20000"
        )
    return Budget(value * UNITS[found[2]]) if found[2] else Budget(iterations=int(value))


def _whole(key: str, text: str) -> int:
    return int(number(key, text, lambda n: n >= 1 and n == int(n), "a whole number at least 1"))
