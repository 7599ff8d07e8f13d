"""The ready data: datasets/registry.yaml, and the files it names. Find, verify, read, build.

An entry without a file is of data that are generated or a person's own: its loader has a `store()`, whose
`state()`, `describe()`, `verify()` and `build(out, echo)` mean what the functions here mean.
"""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from flyrun.ground import archive, paths, schema
from flyrun.ground.errors import DataError, refusal


def shipped(file: str) -> dict[str, dict[str, Any]]:
    """Each dataset's entry in a YAML file of datasets/."""
    path = paths.datasets_dir() / file
    try:
        entries = _parsed(path.read_text(encoding="utf-8"))
        if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
            raise ValueError("it must map each dataset's name to its entry")
    except (OSError, ValueError, yaml.YAMLError) as error:
        detail = " ".join(str(error).split())
        raise DataError(f"{path}: cannot be read ({detail}); restore it or reinstall flyrun") from error
    return entries


_parsed = lru_cache(yaml.safe_load)  # asked for hundreds of times a run, and YAML is slow


def names() -> list[str]:
    """Names of the registered datasets, in the registry's order."""
    return list(shipped("registry.yaml"))


def entry(name: str) -> dict[str, Any]:
    """The registry's entry for `name`; DataError listing the known names when there is none."""
    entries = shipped("registry.yaml")
    if name not in entries:
        raise DataError(f"no dataset is called {name!r}; known: {', '.join(entries)}")
    return entries[name]


def origin(name: str) -> dict[str, str]:
    """For Dataset.info: title, source and licence."""
    known = entry(name)
    return {key: known[key] for key in ("title", "source", "licence")}


def _loader(name: str) -> Any:
    return schema.build("dataset", {"name": name}).code


def _own_store(name: str) -> Any:
    """The loader's store, of data that have no file here."""
    return None if "file" in entry(name) else _loader(name).store()


def path(name: str) -> Path:
    """Where the file of `name` is, or should be: beside the registry, else in the per-user cache."""
    places = _places(name)
    return next((place for place in places if place.is_file()), places[0])


def _places(name: str) -> list[Path]:
    # `build` writes to the cache when the installed package cannot be written to.
    return [folder / entry(name)["file"] for folder in (paths.datasets_dir(), paths.cache_dir("data"))]


def read(name: str) -> tuple[bytes, str]:
    """(content, sha256) of the stored file, verified; DataError naming file and remedy otherwise.

    What is hashed is what is returned, so a file changed in between cannot slip through.
    """
    expected, remedy = entry(name).get("sha256"), f"run `flyrun data build {name}`"
    problem = ""
    for place in _places(name):
        try:
            content = place.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            problem = problem or f"{place}: cannot be read ({error.strerror}); {remedy}"
            continue
        digest = archive.sha256(content)
        if digest == expected:
            return content, digest
        problem = problem or (
            f"{place}: is altered or truncated ({len(content):,} bytes, sha256 {digest[:12]}…, "
            f"registered {str(expected)[:12]}…); {remedy}"
        )
    raise DataError(problem or f"{_places(name)[0]}: is missing; {remedy}")


def arrays(name: str, wanted: tuple[str, ...]) -> tuple[dict[str, np.ndarray], str]:
    """(the arrays called `wanted`, sha256) of the stored .npz file, verified as by `read`."""
    content, digest = read(name)
    return archive.from_bytes(content, wanted, str(path(name))), digest


def verify(name: str) -> str:
    """DataError unless the stored file of `name` is there and has the registered sha256.

    Returns what to say of it: that it is verified, and where it is; or why there is nothing to verify.
    """
    if store := _own_store(name):
        return store.verify()
    read(name)
    return f"verified, {path(name)}"


def state(name: str) -> str:
    """A word or two for listings: "verified", "altered" (or unreadable), "missing"; or the loader's own."""
    if store := _own_store(name):
        return store.state()
    try:
        read(name)
    except DataError:
        return "altered" if path(name).is_file() else "missing"
    return "verified"


def describe(name: str) -> dict[str, Any]:
    """Plain values for `flyrun data info`: the registry's entry and what is on this disk."""
    known = {"name": name, **entry(name)}
    if store := _own_store(name):
        return {**known, **store.describe(), "state": state(name)}
    return {**known, "path": str(path(name)), "state": state(name), "rebuild": f"flyrun data build {name}"}


def build(name: str, out: Path | str | None = None, echo: Callable[[str], object] = print) -> Path:
    """Make the stored file of `name` anew from its sources and return where it was put.

    out: a file or an existing folder; by default beside the registry, or in the per-user cache where
    that cannot be written. The sources tell by `echo` which one served. DataError, and no file
    touched, when no source serves or what was made is not what is registered.
    """
    if store := _own_store(name):
        return store.build(out, echo)
    known, home = entry(name), paths.datasets_dir()
    if out is None:
        target = (home if paths.writable(home) else paths.cache_dir("data")) / known["file"]
    else:
        target = Path(out, known["file"]) if Path(out).is_dir() else Path(out)
    content = archive.to_bytes(_loader(name).collect(echo))
    digest = archive.sha256(content)
    if known.get("sha256") not in (None, digest):
        raise DataError(
            f"{target}: not written, for what was built has sha256 {digest}, not the registered "
            f"{known['sha256']}; the sources verified, so the libraries that write it must differ"
        )
    try:
        archive.write(target, content)
    except OSError as error:
        raise DataError(refusal(target, error)) from error
    echo(f"{name}: wrote {target} ({len(content):,} bytes, sha256 {digest})")
    return target
