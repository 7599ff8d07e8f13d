"""What `flyrun --help` prints."""

import textwrap
from functools import partial

from flyrun.cli.verbs import VERBS, verb
from flyrun.experiments.config.catalogue import SHOWN, options

#: flags of a run, flyrun's own and those of Hydra's that serve it
FLAGS = {
    "--fresh": "repeat finished cells (the same as fresh=true)",
    "--quiet": "print only errors and the table's path",
    "--log json": "print events, one JSON object a line (or --json)",
    "--skip-bad": "leave out, and count, a file's bad rows (dataset.skip_bad=true)",
    "--multirun": "sweep (or -m): KEY=A,B runs both, each in its own folder; a table of all",
    "--cfg job": "show the configuration instead of running",
    "--config-dir FOLDER": "add options of your own (FOLDER/experiment/mine.yaml)",
    "--info": "what Hydra knows, as --hydra-help",
    "--version": "print the version, and what a bug report needs",
}

_HEAD = """\
flyrun: which sampler can I trust on tall data, and what does it cost?

  flyrun experiment=NAME [KEY=VALUE ...]    run an experiment; what is finished is not run again
  flyrun dataset=… model=… sampler=… [...]  run one arm without an experiment
  flyrun VERB --help                        help of a verb
"""

_KEYS = """\
Keys of an arm: a value applies to every arm that has the key
  protocol.seeds=5|[0,1,2]     how many chains per arm, or which
  protocol.iterations=80000    iterations, burn-in included; protocol.burn_in, protocol.thin
  protocol.init=prior|map|zero where chains start
  prior.scale=1.0|held_out     prior standard deviation, or the best on held-out data
  dataset.n_components=50      PCA scores used; dataset.limit=N takes the first N rows
  brightness.q=0.01            probability to propose brightening a dark datum
  arms.map_tuned.KEY=VALUE     the same for one arm alone
Keys of the whole run
  name=…                       folder under results/runs/ (default: the experiment's name)
  'only=[regular,map_tuned]'   which arms
  executor.workers=2           processes (default: one per core)
  executor=dask                a Dask cluster: here, executor.address=tcp://…, or executor.slurm.jobs=4
  results_dir=results          where results go
"""

_EXAMPLES = """\
Examples
  flyrun experiment=mnist_logreg protocol=smoke name=smoke
  flyrun experiment=mnist_logreg 'only=[regular,map_tuned]' brightness.q=0.005 name=small_q
  flyrun -m experiment=mnist_logreg prior.scale=0.2,0.5,1
  flyrun dataset=mnist_7v9 model=logistic bound=map sampler=random_walk

Tab completion: eval "$(flyrun -sc install=bash)" (also zsh, fish). FLYRUN_DEBUG=1 shows tracebacks."""


def overview() -> str:
    """The text of `flyrun --help`."""
    blocks = [
        _HEAD,
        _rows("Verbs", {verb(name).in_brief: verb(name).summary for name in VERBS}, 44),
        _rows("Choices (GROUP=OPTION)", {group: ", ".join(options(group)) for group in SHOWN}, 12),
        _KEYS + _rows("Flags", FLAGS, 29),
    ]
    return "\n".join([*blocks, _EXAMPLES])


def _rows(title: str, rows: dict[str, str], width: int) -> str:
    blank = " " * (width + 2)
    wrapped = partial(textwrap.fill, width=110, initial_indent=blank, subsequent_indent=blank)
    each = (f"  {label:<{width}}{wrapped(text).strip()}" for label, text in rows.items())
    return "\n".join([title, *each, ""])
