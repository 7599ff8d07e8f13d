"""flyrun publish: finished runs' reports, copied."""

from pathlib import Path

from flyrun.cli.options import take
from flyrun.compare.publish import publish
from flyrun.errors import ConfigError
from flyrun.runner.store import find_run


def run(words: list[str]) -> int:
    """Copy finished runs' reports."""
    plain, given = take("publish", words, ("results_dir", "out"))
    if not plain:
        raise ConfigError("publish: a name is missing; as in `flyrun publish mnist_logreg`")
    out = Path(given.get("out", "results/measured")).expanduser()
    for name in plain:
        written = publish(find_run(name, given.get("results_dir", "results")), out)
        print(f"{name}: {len(written)} files in {written[0].parent}")
    return 0
