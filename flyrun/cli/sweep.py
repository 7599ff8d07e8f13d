"""`flyrun experiment=NAME ...` through hydra.main: -m, --cfg, --info, --config-dir, completion stay."""

import argparse
import hashlib
import logging
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import OmegaConf

from flyrun.cli import screen as outputs
from flyrun.cli.messages import explain, print_error
from flyrun.cli.verbs import VERBS
from flyrun.experiments.config import plugins
from flyrun.experiments.config.arm import Job
from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.config.hydra_errors import one_line
from flyrun.experiments.config.overrides import Entry, from_hydra, known_keys, read, to_hydra
from flyrun.ground.errors import ConfigError
from flyrun.ground.exit_codes import DONE, FAILED, INTERRUPTED
from flyrun.ground.paths import conf_dir
from flyrun.ground.schema import did_you_mean, listing

#: flags of flyrun's own -> the keys that they set
_SHORT = {"--fresh": "fresh=true", "--skip-bad": "dataset.skip_bad=true"}
_REFUSED = ("--config-path", "--config-name", "--experimental-rerun")


@dataclass
class _CommandLine:
    """One command line: what was typed, and the exit codes of its jobs (several under -m)."""

    typed: list[Entry]
    config_dir: str | None
    output: str = ""  # "quiet", "json" or, for a person, ""
    sweep: str = ""  # folder where the jobs of a sweep leave how they ended
    codes: list[int] = field(default_factory=list)
    process: int = field(default_factory=os.getpid)


class _JobEndedBadly(Exception):  # noqa: N818
    """What a launcher brings back from another process: args hold the job's exit code."""


def run(argv: Sequence[str]) -> int:
    """Run a command line of key=value words and Hydra's flags; return the exit code."""
    output, tokens = outputs.take(argv)
    tokens = [_SHORT.get(word, word) for word in tokens]
    arguments = _arguments(tokens)
    if arguments.shell_completion:
        from flyrun.cli.completion import complete  # late, as below: only some need what it imports

        return complete(lambda: _call_hydra(_CommandLine([], None), tokens))
    multirun = arguments.multirun or any(
        word.upper().endswith("HYDRA.MODE=MULTIRUN") for word in arguments.overrides
    )
    typed = read(arguments.overrides, multirun)
    flags = list(tokens)
    for word in arguments.overrides:
        flags.remove(word)
    translated = [to_hydra(entry) for entry in typed]
    line = _CommandLine(typed, arguments.config_dir, output)
    given = next((str(entry.value) for entry in typed if entry.key == "hydra.sweep.dir"), None)
    with _folder_of_jobs(given) as folder:
        line.sweep = folder if multirun else ""
        if multirun and given is None:
            translated.append(f"hydra.sweep.dir='{folder}'")  # Hydra writes a multirun.yaml
        try:
            # The overrides go together: between flags, argparse would not take them.
            if multirun or flags or any(entry.is_hydra for entry in typed):
                with _jobs_of_slurm(line, argv):
                    _call_hydra(line, [*translated, *flags])
            else:  # Hydra would compose all twice more, and do nothing else
                _job(line, lambda: compose_job([entry.text for entry in typed]))
        except KeyboardInterrupt:
            if INTERRUPTED not in line.codes:  # otherwise it has been told how to go on
                raise
        if line.sweep and INTERRUPTED not in line.codes:
            from flyrun.experiments.report import sweep  # late: pandas, for which Tab need not wait

            jobs = sweep.read(Path(folder))
            if not jobs and not line.codes:
                raise ConfigError("-m: these words make no job; see `flyrun --help`")
            screen = outputs.Screen(output)
            path = sweep.build(jobs, screen.tables)
            if path is not None:
                screen.tell("sweep", path, csv=path)
    return max(line.codes, default=DONE)


@contextmanager
def _jobs_of_slurm(line: _CommandLine, argv: Sequence[str]) -> Iterator[None]:
    """Where the launcher is submitit_slurm: a job that SLURM ends is a row, a signal is told how to go on."""
    if not any(entry.key == "hydra/launcher" and entry.value == "submitit_slurm" for entry in line.typed):
        yield
        return
    from flyrun.cli.submitit_slurm import watched  # late: the runner, for which Tab need not wait

    again = f"To go on: {shlex.join(['flyrun', *argv])}"

    def lost(arguments: list[str], place: int, problem: str) -> None:
        print_error(f"sweep, job {place + 1}: {problem}. {again}")
        line.codes.append(FAILED)
        _leave(line, place, from_hydra(arguments), "", problem)

    try:
        with watched(lost):
            yield
    except KeyboardInterrupt:
        print_error(again)
        line.codes.append(INTERRUPTED)
        raise


@contextmanager
def _folder_of_jobs(given: str | None) -> Iterator[str]:
    """A folder for as long as the jobs run; under hydra.sweep.dir where that is given, for all to see."""
    shared = None
    if given is not None and "$" not in given:  # which Hydra alone resolves
        shared = Path(given).absolute()
        shared.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="flyrun-sweep-", dir=shared) as folder:
        yield folder


def _arguments(tokens: list[str]) -> argparse.Namespace:
    """Read the flags as Hydra will. Raises ConfigError for those that it or flyrun does not take."""
    parser = get_args_parser()
    parser.allow_abbrev = False  # --experiment is no --experimental-rerun

    def refuse(message: str) -> NoReturn:
        unknown = message.partition("unrecognized arguments: ")[2].split()
        if unknown:
            _refuse_what_is_no_flag(tokens, unknown[0])
        flags = [flag for action in parser._actions for flag in action.option_strings]
        flags += [*_SHORT, *outputs.FLAGS]
        close = did_you_mean(unknown[0], flags) if unknown else ""
        raise ConfigError(f"{message}{close}; see `flyrun --help`")

    parser.error = refuse  # type: ignore[method-assign]
    arguments = parser.parse_intermixed_args(tokens)
    _refuse_commands(arguments.overrides)
    for flag in _REFUSED:
        if getattr(arguments, flag[2:].replace("-", "_")) is not None:
            raise ConfigError(f"{flag}: is not taken; --config-dir FOLDER adds options of your own")
    return arguments


def _refuse_what_is_no_flag(tokens: list[str], unknown: str) -> None:
    """Raise ConfigError for --KEY VALUE, and for a command's flag before the command."""
    _refuse_commands(tokens)
    place = next(i for i, word in enumerate(tokens) if word.startswith(unknown))
    name, equals, value = tokens[place].partition("=")
    after = [*tokens[place + 1 :], ""][0]
    if not equals:
        value = after if after and not after.startswith("-") and "=" not in after else "VALUE"
    if keys := known_keys(name.lstrip("-").replace("-", "_")):
        meant = listing((shlex.quote(f"{key}={value}") for key in keys), "or")
        raise ConfigError(f"{name}: keys are given without dashes; did you mean {meant}?")


def _refuse_commands(tokens: list[str]) -> None:
    for word in tokens:
        if word in VERBS:
            raise ConfigError(f"{word}: is a command, which stands first; see `flyrun {word} --help`")


def _call_hydra(line: _CommandLine, tokens: list[str]) -> None:
    """Let hydra.main parse `tokens` and call the task, with its errors said in one line."""

    @hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="config")
    def task(config: object) -> None:
        _job(line, lambda: _compose(line))

    plugins.offer_to_hydra()
    with _process_as_hydra_wants_it(tokens), one_line():
        try:
            task()
        except _JobEndedBadly as end:
            line.codes.append(end.args[0])
        except SystemExit as end:
            line.codes.append(end.code if isinstance(end.code, int) else DONE)
        except (ValueError, TypeError, AssertionError) as error:
            # Hydra's own complaints about flags; the task lets none out.
            message = str(error) or "Hydra takes no such words"
            raise ConfigError(f"{message}; see `flyrun --help`") from error
        except RuntimeError as error:
            if not type(error).__module__.startswith("submitit") and "srun" not in str(error):
                raise
            message = " ".join(str(error).split())
            raise ConfigError(
                f"hydra/launcher: SLURM takes no job ({message}); correct hydra.launcher.partition=NAME or "
                "others of its keys, or leave hydra/launcher out"
            ) from error


@contextmanager
def _process_as_hydra_wants_it(tokens: list[str]) -> Iterator[None]:
    """Hydra reads sys.argv; with HYDRA_FULL_ERROR it raises instead of printing and leaving."""
    argv, full = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level  # --info and --hydra-help add one of their own
    sys.argv, os.environ["HYDRA_FULL_ERROR"] = ["flyrun", *tokens], "1"
    try:
        yield
    finally:
        sys.argv, root.handlers[:] = argv, handlers
        root.setLevel(level)
        del os.environ["HYDRA_FULL_ERROR"]
        os.environ |= {} if full is None else {"HYDRA_FULL_ERROR": full}


def _job(line: _CommandLine, compose: Callable[[], Job]) -> None:
    """Compose, run, report. Errors are told here, for Hydra would print its own."""
    screen = outputs.Screen(line.output)
    run_dir, problem = "", ""
    try:
        job = compose()
        run_dir = str(job.results_dir / "runs" / job.name)
        line.codes.append(_execute(job, screen))
    except Exception as error:
        line.codes.append(explain(error))
        problem = " ".join(str(error).split())
    if line.sweep:
        problem = problem or ("some cells failed" if line.codes[-1] == FAILED else "")
        _leave(line, HydraConfig.get().job.num, _told("task"), run_dir, problem)
    if os.getpid() != line.process and line.codes[-1]:
        raise _JobEndedBadly(line.codes[-1])
    if line.codes[-1] == INTERRUPTED:
        raise KeyboardInterrupt


def _leave(line: _CommandLine, place: int, overrides: list[str], run_dir: str, problem: str) -> None:
    """Leave for the sweep's table how its job at `place` ended: with the last of the line's exit codes."""
    from flyrun.experiments.report import sweep  # late: pandas, for which Tab need not wait

    keys = dict(entry.text.partition("=")[::2] for entry in _swept(line.typed, overrides))
    sweep.Job(place + 1, keys, run_dir, line.codes[-1], problem).write(Path(line.sweep))


def _told(kind: str) -> list[str]:
    """A job's words, "task" or "hydra", as typed: one by one, interpolations would be resolved."""
    overrides: Any = OmegaConf.to_container(HydraConfig.get().overrides, resolve=False)
    return from_hydra(overrides[kind])


def _compose(line: _CommandLine) -> Job:
    search = [word for word in _told("hydra") if word.startswith("hydra.searchpath=")]
    job = compose_job([*_told("task"), *search])
    if HydraConfig.get().mode == RunMode.MULTIRUN:
        job = _apart(job, _swept(line.typed, _told("task")))
        print_error(f"sweep, job {HydraConfig.get().job.num + 1}: {job.name}")
    if line.config_dir is not None:
        job = replace(job, run_overrides=["--config-dir", line.config_dir, *job.run_overrides])
    return job


def _apart(job: Job, swept: list[Entry]) -> Job:
    """Give a sweep's job a run folder of its own: its name ends with what is swept."""
    name = "-".join([job.name, *(_sanitised(entry.text) for entry in swept if entry.key != "name")])
    if len(name) > 150:
        name = f"{name[:140]}-{_digest(name)}"
    others = [word for word in job.run_overrides if not word.startswith("name=")]
    title = name if job.title == job.name else job.title
    return replace(job, name=name, title=title, run_overrides=[*others, f"name={name}"])


def _swept(typed: list[Entry], overrides: list[str]) -> list[Entry]:
    """Of a job's words those that differ between jobs."""
    fixed = {(entry.arm, entry.key) for entry in typed if not entry.swept}
    return [entry for entry in read(overrides) if (entry.arm, entry.key) not in fixed]


def _sanitised(text: str) -> str:
    """Turn `only=[a,b]` into `only_a+b`, fit for a folder's name; a digest keeps the unusual apart."""
    plain = text.replace("=", "_", 1).replace("[", "").replace("]", "").replace(",", "+")
    kept = re.sub(r"[^A-Za-z0-9._+-]", "_", plain)
    return kept if kept == plain else f"{kept}_{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def _execute(job: Job, screen: outputs.Screen) -> int:
    """Run the cells and build the report; an interrupted run leaves the report for later.

    Cells that ended well and that no report can be made of are a failure all the same.
    """
    # late: Tab and --cfg need not wait for these
    from flyrun.experiments.report.build import build, summarise
    from flyrun.experiments.runner.launch import run as run_cells  # late

    result = run_cells(job, screen.console, summarise=summarise)
    screen.failures(result)
    code = result.exit_code
    if not result.interrupted:
        report = build(result.run_dir, screen.tables)
        screen.table(result.run_dir)
        code = code if report.complete else max(code, FAILED)
    return code
