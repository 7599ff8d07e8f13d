"""What another revision's arms do on this machine: its own `flyrun check`, in a folder of its own."""

import os
import shlex
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import flyrun
from flyrun.experiments.runner import store
from flyrun.ground import git, paths
from flyrun.ground.errors import ConfigError
from flyrun.ground.numerics.code_digest import plugin_points
from flyrun.ground.schema import listing

_NEEDED = ("flyrun", "conf", "datasets", "results/reference", "pyproject.toml")


@contextmanager
def checked_out(
    revision: str, asked: str = "check", root: Path | None = None, needed: Sequence[str] = _NEEDED
) -> Iterator[Path]:
    """A temporary folder with a revision's files; the checkout stays as it is.

    asked: the verb.  root: of another package's checkout, of which all that is `needed` is unpacked.
    Raises ConfigError where flyrun runs from no checkout, or git knows no such revision.
    """
    where = f"{asked} --against {revision}"
    if root is None and not paths.in_checkout():
        raise ConfigError(f"{where}: flyrun runs from a wheel; run it in a git checkout")
    root = root or Path(flyrun.__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory(prefix="flyrun-against-") as name:
        folder, archive = Path(name) / "checkout", Path(name) / "files.zip"
        try:
            query = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
            known = git.ask(root, *query)
            packed = git.ask(
                root, "archive", f"--output={archive}", known.stdout.strip() or revision, *needed
            )
        except git.NoAnswer as error:
            raise ConfigError(f"{where}: {error}") from error
        if known.returncode or packed.returncode:
            why = packed.stderr.strip().splitlines()[-1] if known.returncode == 0 else "no such revision"
            raise ConfigError(f"{where}: {why}; name a commit of {root}, such as HEAD~1")
        with zipfile.ZipFile(archive) as files:
            files.extractall(folder)
        yield folder


@contextmanager
def run_there(run_dir: Path, revision: str, package: str | None, workers: int) -> Iterator[Path]:
    """A run's command again, by a revision of the package that its methods are from: that run's folder.

    package: by default the only one beside flyrun, else flyrun. Raises ConfigError where it lies in no git
    checkout, the revision is none, or the run fails there.
    """
    command = shlex.split(store.read_chains(run_dir)["command"])[1:]
    package = package or _package_of(run_dir)
    root, inside = (None, Path()) if package == "flyrun" else _checkout_of(package)
    ours = Path(flyrun.__file__).resolve().parents[1]
    kept = [
        word for word in command if not word.lstrip("+").startswith(("results_dir=", "name=", "executor"))
    ]
    with checked_out(revision, "compare", root, _NEEDED if root is None else ()) as folder:
        again = folder.parent / "results/runs" / run_dir.name
        words = [*kept, f"results_dir={again.parents[1]}", f"name={run_dir.name}", "--quiet"]
        path = [str(folder / inside), *([] if root is None else [str(ours)])]
        path += filter(None, [os.environ.get("PYTHONPATH")])
        done = subprocess.run(
            [sys.executable, "-P", "-m", "flyrun", *words, f"executor.workers={workers}"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)}, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            last = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
            raise ConfigError(f"compare --against {revision}: the run ended with {done.returncode}: {last}")
        yield again


def _package_of(run_dir: Path) -> str:
    """The package that a run's methods are from: the only one beside flyrun, else flyrun."""
    brought = {point.dist.name for point in plugin_points() if point.dist} - {"flyrun"}
    infos = (cell.info.get("environment", {}) for cell in store.open_cells(run_dir))
    used = {name for info in infos for name in info.get("packages", {}) if name in brought}
    return used.pop() if len(used) == 1 else "flyrun"


def _checkout_of(package: str) -> tuple[Path, Path]:
    """(root of the git checkout that a package is imported from, the folder in it that Python looks in)."""
    modules = [p.module.partition(".")[0] for p in plugin_points() if p.dist and p.dist.name == package]
    spec = find_spec(modules[0]) if modules else None
    if spec is None or spec.origin is None:
        known = listing(sorted({point.dist.name for point in plugin_points() if point.dist} | {"flyrun"}))
        raise ConfigError(f"--package {package}: brings no sampler or other choice; choose from {known}")
    file = Path(spec.origin).resolve()
    folder = file.parents[1] if spec.submodule_search_locations else file.parent
    try:
        top = git.ask(folder, "rev-parse", "--show-toplevel").stdout.removesuffix("\n")
        tracked = bool(top) and git.ask(folder, "ls-files", "--error-unmatch", str(file)).returncode == 0
    except git.NoAnswer as error:
        raise ConfigError(f"--package {package}: {error}") from error
    if not tracked:
        remedy = "install it from a checkout with `pip install -e FOLDER`"
        raise ConfigError(f"--package {package}: {file} is in no git checkout; {remedy}")
    return Path(top), folder.relative_to(Path(top).resolve())


def start_there(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start Python with these words and a folder's flyrun; its input, output and errors are pipes."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command, pipe = [sys.executable, *arguments], subprocess.PIPE
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


def measure_there(folder: Path, revision: str, names: list[str], workers: int) -> Path:
    """Store what a revision's arms do, in a folder beside its files, and return it.

    names: experiments that the revision has. Raises ConfigError where its own check fails.
    """
    values = folder.parent / "values"
    if names:
        options = [f"values={values}", f"workers={workers}"]
        done = start_there(folder, "-m", "flyrun", "check", *names, "--update", *options)
        printed, failed = done.communicate()
        if done.returncode:
            last = (failed.strip() or printed.strip() or "nothing").splitlines()[-1]
            raise ConfigError(
                f"check --against {revision}: its own check ended with {done.returncode}: {last}"
            )
    return values
