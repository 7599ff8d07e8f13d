"""`flyrun` in this process: what is run, what is said, the exit code. Runner and report are stand-ins."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from flyrun.cli import screen, sweep
from flyrun.cli.main import main
from flyrun.cli.overview import FLAGS, overview
from flyrun.cli.verbs import VERBS
from flyrun.cli.verbs import verb as load
from flyrun.experiments.config.brightness import Implicit
from flyrun.experiments.config.catalogue import options
from flyrun.experiments.runner.outcomes import Outcome, RunResult
from flyrun.ground.errors import DataError, StoreError
from flyrun.ground.numerics.code_digest import PACKAGE

EXPERIMENT = "experiment=mnist_logreg"


@dataclass
class Runs:
    """What the stand-ins were given, and what they answer."""

    jobs: list = field(default_factory=list)
    reports: list = field(default_factory=list)
    answer: dict = field(default_factory=dict)
    error: BaseException | None = None

    def run(self, job, console, summarise=None):
        self.jobs.append(job)
        if self.error:
            raise self.error
        return RunResult(job.results_dir / "runs" / job.name, "flyrun", **self.answer)

    def build(self, run_dir, console=None, pdf=False):
        self.reports.append(run_dir)
        return SimpleNamespace(complete=True)


@pytest.fixture
def runs(monkeypatch, tmp_path):
    stand_in = Runs()
    monkeypatch.setattr("flyrun.experiments.runner.launch.run", stand_in.run)
    monkeypatch.setattr("flyrun.experiments.report.build.build", stand_in.build)
    monkeypatch.chdir(tmp_path)
    yield stand_in
    assert os.listdir(tmp_path) == [], "Hydra left folders behind"


def one_line(capsys) -> str:
    printed = capsys.readouterr()
    assert printed.err.startswith("flyrun: error: "), printed
    assert printed.err.count("\n") == 1
    return printed.err


def test_runs_and_reports(runs):
    assert main([EXPERIMENT, "brightness.q=0.2", "only=[map_tuned]", "--fresh"]) == 0
    (job,) = runs.jobs
    assert job.fresh
    assert [arm.brightness for arm in job.arms] == [Implicit(q=0.2)]
    assert runs.reports == [Path("results/runs/mnist_logreg")]


def test_a_single_arm_and_one_arm_of_several(runs):
    assert main(["dataset=mnist_7v9", "model=logistic", "bound=map", "sampler=random_walk"]) == 0
    assert main([EXPERIMENT, "arms.map_tuned.brightness.q=0.02"]) == 0
    assert [job.name for job in runs.jobs] == ["random_walk-map", "mnist_logreg"]
    assert runs.jobs[1].arms[2].brightness.q == 0.02


def test_lists_may_hold_blanks(runs):
    assert main([EXPERIMENT, "only=[regular, map_tuned]", "protocol.seeds=[0, 1]"]) == 0
    assert [arm.name for arm in runs.jobs[0].arms] == ["regular", "map_tuned"]


def test_flags_may_stand_anywhere(runs):
    assert main(["--fresh", EXPERIMENT, "-m", "prior.scale=1,2"]) == 0
    assert main(["-m", EXPERIMENT, "prior.scale=1"]) == 0
    assert [job.name for job in runs.jobs] == [
        "mnist_logreg-prior.scale_1",
        "mnist_logreg-prior.scale_2",
        "mnist_logreg",
    ]
    assert [job.fresh for job in runs.jobs] == [True, True, False]


def test_skip_bad_is_a_flag(runs, capsys):
    words = ["dataset=opv_cep", "model=student_t", "sampler=slice"]
    assert main(["--skip-bad", *words]) == 0
    assert runs.jobs[0].arms[0].dataset.skip_bad
    assert "dataset.skip_bad=true" in runs.jobs[0].run_overrides
    assert main([EXPERIMENT, "--skip-bad"]) == 2
    assert "dataset.skip_bad: no arm that runs has this key" in one_line(capsys)


def test_sweeps_reach_keys_groups_and_single_arms(runs):
    words = [
        "protocol=full",
        "arms.map_tuned.brightness.q=0.02,0.03",
        "only=[map_tuned],[regular,map_tuned]",
    ]
    assert main(["-m", EXPERIMENT, *words, "name=mine"]) == 0
    assert len({job.name for job in runs.jobs}) == len(runs.jobs) == 4
    last = runs.jobs[-1]
    assert last.name == "mine-arms.map_tuned.brightness.q_0.03-only_regular+map_tuned"
    assert [arm.name for arm in last.arms] == ["regular", "map_tuned"]
    assert last.arms[1].protocol.name == "full"
    # the words to go on with name the same folder, without a sweep
    runs.jobs.clear()
    assert main(last.run_overrides) == 0
    assert (runs.jobs[0].name, runs.jobs[0].arms) == (last.name, last.arms)


def test_a_swept_name_is_the_name(runs):
    assert main(["-m", EXPERIMENT, "name=a,b"]) == 0
    assert [job.name for job in runs.jobs] == ["a", "b"]


def test_a_bad_job_of_a_sweep_does_not_stop_the_others(runs, capsys):
    assert main(["-m", EXPERIMENT, "prior.scale=-1,2"]) == 2
    assert [job.name for job in runs.jobs] == ["mnist_logreg-prior.scale_2"]
    assert "flyrun: error: prior.scale=-1: must" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "code", "reports"),
    [
        ({"outcomes": [Outcome(None, "failed"), Outcome(None, "done")]}, 1, 1),
        ({"outcomes": [Outcome(None, "done"), Outcome(None, "lost")]}, 1, 1),
        ({"interrupted": True}, 130, 0),
    ],
)
@pytest.mark.parametrize("sweep", [[], ["-m"]])
def test_exit_codes(runs, answer, code, reports, sweep):
    runs.answer = answer
    assert main([*sweep, EXPERIMENT]) == code
    assert len(runs.reports) == reports


def test_an_interrupted_sweep_ends(runs, capsys):
    runs.answer = {"interrupted": True}
    assert main(["-m", EXPERIMENT, "prior.scale=1,2"]) == 130
    assert len(runs.jobs) == 1
    assert "interrupted" not in capsys.readouterr().err  # the runner has said so, and how to go on


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StoreError("results: cannot be written; name another results_dir"), 2),
        (DataError("x.npz: is truncated\nrebuild it"), 2),
        (RuntimeError("a defect"), 1),
    ],
)
def test_errors_of_the_run_are_one_line(runs, capsys, error, code):
    runs.error = error
    assert main([EXPERIMENT]) == code
    assert " ".join(str(error).split()) in one_line(capsys)


def test_control_c(runs, capsys):
    runs.error = KeyboardInterrupt()
    assert main([EXPERIMENT]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_debug_shows_the_traceback(runs, monkeypatch):
    monkeypatch.setenv("FLYRUN_DEBUG", "1")
    runs.error = RuntimeError("a defect")
    with pytest.raises(RuntimeError, match="a defect"):
        main([EXPERIMENT])


BAD = {
    "experiment=mnist": "(did you mean mnist_logreg?)",
    f"{EXPERIMENT} prior=gauss": "choose from gaussian",
    f"{EXPERIMENT} unknown=1": "unknown: no such key",
    f"{EXPERIMENT} +unknown=1": "unknown: no such key",
    f"{EXPERIMENT} +prior.unknown=1": "prior.unknown: no arm",
    f"{EXPERIMENT} ~prior": "nothing can be deleted",
    f"{EXPERIMENT} ~prior.scale": "nothing can be deleted",
    f"{EXPERIMENT} prior.scale=-1": "prior.scale=-1: must",
    f"{EXPERIMENT} prior.scale=nan": "prior.scale=nan: must",
    f"{EXPERIMENT} prior.scale=null": "prior.scale=null: must",
    f"{EXPERIMENT} prior.scale=1,2": "add -m",
    f"{EXPERIMENT} brightness.q=0": "brightness.q=0: must",
    f"{EXPERIMENT} protocol.iterations=ten": "protocol.iterations=ten: must be a whole number",
    f"{EXPERIMENT} protocol.burn_in=80000": "protocol.burn_in=80000: must be below",
    f"{EXPERIMENT} executor.workers=0": "executor.workers=0: must",
    f"{EXPERIMENT} regular": "regular: is not of the form key=value",
    f"{EXPERIMENT} --config-dir nowhere": "nowhere",
    f"{EXPERIMENT} --config-name other": "--config-name: is not taken",
    f"{EXPERIMENT} --experimental-rerun x.pickle": "--experimental-rerun: is not taken",
    f"{EXPERIMENT} --frsh": "did you mean --fresh?",
    f"{EXPERIMENT} --cfg": "expected one argument",
    f"{EXPERIMENT} -m --cfg job": "Only one of",
    "-m experiment=mnist,mnist_logreg": "experiment=mnist: no such experiment",
    f"{EXPERIMENT} only=[a, b]": 'did you mean "only=[a,b]"?',
    f"{EXPERIMENT} only=regular, map_tuned": 'did you mean "only=[regular,map_tuned]"?',
    f"-m {EXPERIMENT} prior.scale=1, 2": "did you mean prior.scale=1,2?",
    f"{EXPERIMENT} name = mine": "did you mean name=mine?",
    f"{EXPERIMENT} name= mine": "did you mean name=mine?",
    f"{EXPERIMENT} only=[[a]]": "only=[[a]]: choose from",
    "--experiment mnist_logreg": "did you mean experiment=mnist_logreg?",
    f"--{EXPERIMENT}": "did you mean experiment=mnist_logreg?",
    f"{EXPERIMENT} --results-dir x": "did you mean results_dir=x?",
    f"{EXPERIMENT} --workers 2": "did you mean executor.workers=2 or sampler.workers=2?",
    f"{EXPERIMENT} --scale 2": "did you mean model.scale=2 or prior.scale=2?",
    f"{EXPERIMENT} report": "report: is a command, which stands first; see `flyrun report --help`",
    "--quiet fit a.csv --target y": "fit: is a command, which stands first",
    "protocol=smoke": "dataset: none is chosen; add dataset=NAME",
    "lst": "did you mean list?",
    "mnist_logreg": "run it with `flyrun experiment=mnist_logreg`",
    "mnist_logrg": "did you mean experiment=mnist_logreg?",
    "list experimnts": "did you mean experiments?",
    "list a b": "list: b is one word too many; as in `flyrun list`",
    "list --colour": "no such option",
    "info": "info: NAME is missing; as in `flyrun info mnist_logreg`",
    "info mnist_7v8": "did you mean mnist_7v9?",
    "report": "report: RUN is missing; as in `flyrun report mnist_logreg`",
    "report mnist_logreg": "run it first: flyrun experiment=mnist_logreg",
    "report a where=b": "it takes --results-dir, --name, --figures and --out",
    "report --results-dir": "--results-dir: a value is missing",
    "report a --out --level 0.1": "--out: a value is missing",
    "report a --out b": "--out is for the report of several runs",
    "report a --result-dir x": "did you mean --results-dir?",
    "report a results_dir=": "a value is missing",
    "report a name=b name=c": "name: is given twice; keep one of them",
    "compare a b --level 7": "--level 7: must be a number between 0 and 1",
    "check --workers many": "check --workers many: must be a whole number at least 1",
    "check --update=yes": "--update takes no value; drop it",
    "compare": "compare: A is missing; as in `flyrun compare",
    "table nothing --out x": "published tables: firefly_table1",
    "publish nothing --out x --results-dir y": "no such run under y/runs",
    "info mnist_7v9 --config-dir nowhere": "--config-dir nowhere: no such folder",
    "help lst": "did you mean list?",
    "samplers": "did you mean `flyrun list samplers`?",
    "experiment mnist_logreg": "did you mean `flyrun experiment=mnist_logreg`",
    "mnist_7v9": "chosen by dataset=mnist_7v9; see `flyrun info mnist_7v9`",
    "LIST": "did you mean list?",
    "version": "did you mean --version?",
    "experiment=MNIST_logreg": "did you mean mnist_logreg?",
    "EXPERIMENT=mnist_logreg": "did you mean experiment?",
    "experiment=é": "experiment=é: is no option's name; see `flyrun list experiment`",
    "report nonsense": "run an experiment first (`flyrun list experiments`)",
    "check update": "did you mean --update?",
    "data info grd": "did you mean grid?); see `flyrun list dataset`",
    "-sc query=bash": "is for a shell",
    "data": None,
    "data verfy": "did you mean verify?",
    "data info": "data info: NAME is missing; as in `flyrun data info mnist_7v9`",
    "data info gaussian": "nothing has this name",
    "data verify mnist_7v8": "mnist_7v9",
}


@pytest.mark.parametrize("line", [line for line, text in BAD.items() if text])
def test_bad_lines_say_it_in_one_line_and_exit_2(runs, capsys, line):
    assert main(line.split()) == 2
    assert BAD[line] in one_line(capsys)
    assert not runs.jobs


@pytest.mark.parametrize(
    "words",
    [
        ["report", "~nobody-of-this-name/x"],
        ["compare", "a", "b", "--results-dir", "~nobody-of-this-name"],
        ["report", "a" * 5000],
        ["list", "--config-dir", "a" * 5000],
        ["experiment=" + "a" * 5000],
        ["-m", EXPERIMENT, "prior.scale=1,2", "hydra.sweep.dir=/proc/nowhere"],
    ],
)
def test_places_that_cannot_be(runs, capsys, words):
    assert main(words) == 2
    assert "unexpected" not in one_line(capsys)


@pytest.mark.parametrize(
    "words", [[""], ["list", ""], ["report", ""], ["compare", "", ""], ["data", ""], ["=x"]]
)
def test_empty_words_are_no_names(runs, capsys, words):
    assert main(words) == 2
    assert "experiment=\n" not in one_line(capsys)


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("--version", ["flyrun 0.", "commit ", "numba 0.", "cpu ", "blas ", "python 3."]),
        ("", ["flyrun experiment=NAME", "Tab completion", "mnist_logreg"]),
        ("experiment=x -h", ["flyrun experiment=NAME"]),
        ("help", ["results_dir"]),
        ("list", ["experiments", "mnist_logreg", "random_walk", "protocols"]),
        ("list samplers", ["random_walk"]),
        ("list sampler", ["random_walk"]),
        ("info mnist_logreg", ["Maclaurin", "Table 1", "12,214", "minutes", "map_tuned"]),
        ("info mnist_7v9", ["dataset.n_components=50", "12,214", "sha256"]),
        ("info random_walk", ["Metropolis et al. 1953", "sampler.step=null"]),
        ("data list", ["mnist_7v9"]),
        ("data info mnist_7v9", ["licence"]),
        ("data verify mnist_7v9", ["verified"]),
        (f"{EXPERIMENT} brightness.q=0.1 --cfg job", ["n_components: 50", "q: 0.1"]),
        ("--info defaults", ["protocol/default"]),
        ("--hydra-help", ["Hydra"]),
        ("-sc install=bash", ["complete -o nospace", "flyrun"]),
    ],
)
def test_good_lines_that_show_something(runs, capsys, line, texts):
    assert main(line.split()) == 0
    printed = capsys.readouterr()
    for text in texts:
        assert text in printed.out
    assert printed.err == ""


def test_report_finds_a_run_by_name_by_folder_and_by_key(runs, tmp_path_factory):
    results = tmp_path_factory.mktemp("elsewhere")
    folder = results / "runs" / "mine"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    for line in (
        ["mine", f"results_dir={results}"],
        [str(folder)],
        ["name=mine", f"results_dir={results}"],
        ["--results-dir", str(results), "mine"],
        ["mine", f"--results-dir={results}"],
        ["--results_dir", str(results), "--name", "mine"],
    ):
        assert main(["report", *line]) == 0
    assert runs.reports == [folder] * 6


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_help_of_its_own(runs, capsys, verb):
    printed = []
    for words in ([verb, "--help"], ["help", verb], [verb, "x", "-h"], ["-h", verb]):
        assert main(words) == 0
        printed.append(capsys.readouterr().out)
    assert len(set(printed)) == 1
    assert printed[0].startswith(f"flyrun {verb} ")
    assert "Examples\n  flyrun " in printed[0]
    for line in printed[0].partition("Examples\n")[2].splitlines():
        assert line.startswith(f"  flyrun {verb}")
    assert f"\n  {load(verb).in_brief} " in overview()
    told = re.findall(r"^(--[a-z][\w-]*)", printed[0], re.MULTILINE)  # --KEY stands for any of them
    assert sorted(told) == sorted(options_of(verb))


def options_of(verb):
    declared = load(verb)
    each = [declared, *declared.actions.values()]
    return {option.option_strings[0] for one in each for option in one.options.values()}


def test_each_verb_is_a_file():
    assert {*VERBS} == {path.stem for path in (PACKAGE / "cli/verbs").glob("[a-z]*.py")}


def test_flags_of_a_run_are_told_and_offered():
    parser = sweep.get_args_parser()
    known = {
        *sweep._SHORT,
        *screen.FLAGS,
        "--version",
        *(f for a in parser._actions for f in a.option_strings),
    }
    told = {flag.split()[0] for flag in FLAGS}
    assert {*sweep._SHORT, *screen.FLAGS} <= told <= known


def test_options_of_ones_own_are_listed_told_and_run(runs, tmp_path_factory, capsys):
    folder = tmp_path_factory.mktemp("own")
    (folder / "protocol").mkdir()
    (folder / "protocol" / "mine.yaml").write_text(
        "# One short chain\nname: mine\nseeds: 1\niterations: 9\nburn_in: 3\n"
    )
    assert main(["list", "protocols", "--config-dir", str(folder)]) == 0
    assert main(["info", "mine", f"--config-dir={folder}"]) == 0
    assert capsys.readouterr().out.count("One short chain") == 2
    assert main([EXPERIMENT, "protocol=mine", "--config-dir", str(folder)]) == 0
    assert runs.jobs[0].arms[0].protocol.iterations == 9
    assert runs.jobs[0].run_overrides[:2] == ["--config-dir", str(folder)]


@pytest.mark.parametrize(
    ("line", "offered", "not_offered"),
    [
        ("flyrun ", ["list", "info", "experiment=", "only="], ["title=", "arms."]),
        ("flyrun experiment=", ["experiment=mnist_logreg"], []),
        ("flyrun experiment=mnist_logreg brightness.q=0.1 brightness.", ["brightness.q="], []),
        ("flyrun arms.map_tuned.brightness.q=0.1 protocol.it", ["protocol.iterations="], ["protocol.seeds="]),
        ("flyrun info m", ["mnist_logreg", "mnist_7v9", "map"], ["list"]),
        ("flyrun data ", ["verify"], ["experiment="]),
        ("flyrun fit mine.csv --", ["--target", "--quiet"], ["experiment="]),
        ("flyrun fit mine.csv --target ", ["age", "died"], ["--target"]),
        ("flyrun fit mine.csv --model s", ["softmax", "student_t"], ["logistic"]),
    ],
)
def test_completion(runs, capsys, monkeypatch, tmp_path_factory, line, offered, not_offered):
    folder = tmp_path_factory.mktemp("own")
    monkeypatch.chdir(folder)
    (folder / "mine.csv").write_text("age,died\n1,2\n")
    monkeypatch.setenv("COMP_LINE", line)
    assert main(["-sc", "query=bash"]) == 0
    words = capsys.readouterr().out.split()
    assert set(offered) <= set(words)
    assert not set(not_offered) & set(words)


@pytest.fixture
def tab(runs, capsys, monkeypatch):
    def offered(line):
        monkeypatch.setenv("COMP_LINE", line)
        assert main(["-sc", "query=bash"]) == 0
        return set(capsys.readouterr().out.split())

    return offered


def test_tab_offers_every_verb_its_actions_and_its_options(tab):
    assert {*VERBS} <= tab("flyrun ")
    assert {flag.split()[0] for flag in FLAGS} <= tab("flyrun -")
    for verb in VERBS:
        declared = load(verb)
        for line, one in [(verb, declared), *((f"{verb} {name}", a) for name, a in declared.actions.items())]:
            assert {*one.actions} <= tab(f"flyrun {line} ")
            assert {flag for flag in one.options if flag.startswith("--")} == tab(f"flyrun {line} --")
            for flag, option in one.options.items():
                if option.nargs != 0:
                    assert not tab(f"flyrun {line} {flag} ") & {*one.options}, flag


def test_tab_offers_what_a_word_can_be(tab):
    assert tab("flyrun data verify mnist_7") == {"mnist_7v9"}
    assert tab("flyrun gold build mnist_7") == {"mnist_7v9_sd05", "mnist_7v9_sd1"}
    assert tab("flyrun arena score draws.npz --reference two") == {"two_modes"}
    assert {"mnist", "two_modes", "score"} <= tab("flyrun arena ")
    assert tab("flyrun compare a b --fail-on w") == {"worse"}
    assert tab("flyrun fit mine.csv --model=so") == {"--model=softmax"}
    assert tab("flyrun fit ") == set()  # the shell offers files
    assert "--out" in tab("flyrun table firefly_table1 ")


def test_lists_have_straight_columns(runs, capsys, monkeypatch):
    assert main(["list", "samplers"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    column = 4 + max(map(len, options("sampler")))
    assert all(line[column - 2 : column] == "  " and line[column] != " " for line in lines)
    monkeypatch.setattr("flyrun.experiments.data.registry.names", lambda: ["mnist_7v9", "random_factors"])
    monkeypatch.setattr(
        "flyrun.experiments.data.registry.state", lambda name: "none yet, but soon" if "_f" in name else ""
    )
    assert main(["data", "list"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.index("MNIST") == second.index("Generated") == len("random_factors  none yet, but soon  ")


def test_the_sample_table_that_an_error_names_is_there_from_any_folder(tmp_path):
    """A remedy holds where flyrun was started, not only in a checkout."""

    def flyrun(*words):
        command = [sys.executable, "-m", "flyrun", *words]
        env = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)

    told = flyrun("fit")
    typed = shlex.split(re.search("`flyrun (.*)`", told.stderr)[1])
    assert told.returncode == 2
    assert Path(typed[1]).is_absolute()
    seen = flyrun(*typed, "--check")
    assert (seen.returncode, seen.stderr) == (0, ""), seen.stderr
    assert "diagnosis" in seen.stdout
