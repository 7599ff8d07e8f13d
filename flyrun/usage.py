"""What `flyrun VERB --help` prints; that of `fit` is beside its arguments. Imports nothing."""

_RESULTS = "results_dir=results    where results are: its runs/ holds the runs"
_BOTH = (
    "An option is written KEY=VALUE, --KEY VALUE or --KEY=VALUE: out=FILE, --out FILE, --results-dir FOLDER."
)
_OWN = "config_dir=FOLDER      options of your own too (FOLDER/experiment/mine.yaml)"

HELP = {
    "list": f"""\
flyrun list [KIND] [config_dir=FOLDER]

Names what there is to choose from, with a line on each: of one kind, or of all. Kinds: experiments,
datasets, models, priors, bounds, brightness, samplers, protocols, executors.

{_OWN}

Examples
  flyrun list
  flyrun list samplers
  flyrun list protocols --config-dir FOLDER""",
    "info": f"""\
flyrun info NAME [config_dir=FOLDER]

Tells what is known of an option of any kind: of an experiment its paper, what it reproduces, its arms,
data and expected time; of others their paper, and their keys with the values that they have when
nothing is said.

{_OWN}

Examples
  flyrun info mnist_logreg
  flyrun info random_walk""",
    "report": f"""\
flyrun report RUN [results_dir=FOLDER]

Builds a run's report anew from what is stored, without sampling, and prints its tables. Written into
the run's folder: report.html, report.md, table.csv, table.json and figures/. Unfinished cells are
marked.

RUN                    a run's name, by default its experiment's, or its folder; or name=NAME
{_RESULTS}

{_BOTH}

Examples
  flyrun report mnist_logreg
  flyrun report mnist_logreg --results-dir elsewhere
  flyrun report results/runs/mnist_logreg""",
    "table": f"""\
flyrun table REFERENCE [results_dir=FOLDER] [out=FILE]

Prints a published table as a whole: every arm of the paper's and of your runs of its experiments, ours
beside the paper's. Arms that were not run are rows too, with the command that runs them.

REFERENCE              a published table, such as firefly_table1
{_RESULTS}
out=FILE               write FILE.md and FILE.csv as well

{_BOTH}

Examples
  flyrun table firefly_table1
  flyrun table firefly_table1 --out table1""",
    "publish": f"""\
flyrun publish RUN ... [results_dir=FOLDER] [out=FOLDER]

Builds the reports of finished runs anew and copies report.md, table.csv and the figures of each to a
folder of its own, to keep or to put under version control.

RUN                    a run's name or folder; every cell of it must be finished
{_RESULTS}
out=results/measured   where to

{_BOTH}

Examples
  flyrun publish mnist_logreg
  flyrun publish mnist_logreg toy_flymc --out kept""",
    "compare": f"""\
flyrun compare A B [results_dir=FOLDER] [out=FILE] [level=0.05] [margin=0.05]

Tells for each arm and each figure of merit whether B is better than A, worse, the same, or whether too few
seeds leave it undecided, by tests over seeds that allow for the number of comparisons.

A, B                   a run (name or folder); a table (table.csv, table.json, a folder with one, a name in
                       results/measured); or a commit, for all tables in results/measured as of then, or
                       COMMIT:NAME for one of them
{_RESULTS}
out=FILE               write the comparison there as well: .md or .csv
level=0.05             probability of finding any difference where there is none
margin=0.05            what counts as the same: within this share of A

{_BOTH}

Examples
  flyrun compare mnist_logreg small_q
  flyrun compare HEAD~1 HEAD --out changes.md""",
    "check": f"""\
flyrun check [EXPERIMENT ...] [--update] [workers=N] [values=FOLDER]

Runs short chains of every arm at fixed seeds and compares them with what is stored: exactly where
machine and libraries are the same, by tests elsewhere. Exit code 1 where an arm differs. Takes minutes
for all experiments.

EXPERIMENT             which ones; default: all
--update               store what is measured, and print how it differs from what was stored
workers=N              processes; default: one per core
values=FOLDER          where the values are stored; default: results/reference/check

{_BOTH}

Examples
  flyrun check toy_flymc
  flyrun check --update toy_flymc --values FOLDER""",
    "data": f"""\
flyrun data [list]
flyrun data info NAME
flyrun data verify [NAME ...]
flyrun data build NAME [out=FOLDER]

The data files: which there are and whether they are as registered; where one comes from, its licence
and sha256; whether files are unaltered (default: all); or make one anew from its public sources, which
may download them.

out=FOLDER             where to put what is built, a folder or a file; default: where it is looked for

{_BOTH}

Examples
  flyrun data
  flyrun data info mnist_7v9
  flyrun data verify""",
}
