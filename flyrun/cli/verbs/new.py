"""flyrun new: a package of one's own that passes its tests as it is written."""

import argparse
import keyword
import re
from pathlib import Path

from flyrun.cli.verb import Verb, path
from flyrun.experiments.config import plugins
from flyrun.experiments.config.arm import Arm  # noqa: F401  (that it is imported registers the choices)
from flyrun.experiments.config.catalogue import options
from flyrun.ground import files
from flyrun.ground.errors import ConfigError

_TEMPLATES = Path(__file__).parents[1] / "templates"
#: kind -> what flyrun calls it, the object of its entry point, whether `flyrun prove` tries it
_KINDS = {
    "sampler": ("sampler", "{{Name}}", True),
    "likelihood": ("model", "{{Name}}", True),
    "dataset": ("dataset", "{{Name}}", False),
    "section": ("section", "SECTION", False),
}
#: file of a template -> its place in the package
_PLACES = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "workflow.yml": ".github/workflows/test.yml",
    "peers.yaml": "flyrun_{{name}}/experiment/compare_{{name}}_peers.yaml",
    "module.py": "flyrun_{{name}}/__init__.py",
    "experiment.yaml": "flyrun_{{name}}/experiment/compare_{{name}}.yaml",
    "test.py": "tests/test_{{name}}.py",
}


def run(given: argparse.Namespace) -> int:
    """Write the package, and say what to type next."""
    from flyrun import extend  # late: only packages need it

    kind, name = given.kind, given.name
    group, thing, proven = _KINDS[kind]
    if given.jax and kind != "sampler":
        raise ConfigError(f"new {kind} {name}: --jax is for a sampler; drop it")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ConfigError(f"new {kind} {name}: must be small letters, digits and _, such as my_{kind}")
    if f"compare_{name}" in options("experiment") or (group in plugins.CHOICES and name in options(group)):
        raise ConfigError(f"new {kind} {name}: is the name of another {kind} or experiment; choose another")
    dashed = name.replace("_", "-")
    folder = given.folder / f"flyrun-{dashed}"
    if folder.exists():
        raise ConfigError(f"{folder}: is there already; choose another name, or remove it")
    prove = f"flyrun prove {group}={name}"
    names = {
        "name": name, "Name": "".join(part.capitalize() for part in name.split("_")), "dashed": dashed,
        "kind": kind, "group": plugins.GROUPS[group][0].removeprefix("flyrun."), "object": thing,
        "needs": "flyrun[jax]" if given.jax else "flyrun", "contract": extend.CONTRACT,
        "prove": f"{prove}\n" * proven, "prove_step": f"      - run: {prove}\n" * proven,
    }  # fmt: skip
    with files.writing(folder, "name another place with --folder FOLDER"):
        for template, place in _PLACES.items():
            home = _TEMPLATES / (f"{kind}_jax" if given.jax else kind)
            source = next(at for at in (home, _TEMPLATES / "common") if (at / f"{template}.tmpl").is_file())
            target = folder / _filled(place, names)
            target.parent.mkdir(parents=True, exist_ok=True)
            text = (source / f"{template}.tmpl").read_text(encoding="utf-8")
            files.write_text(target, _filled(text, names))
    print(f"wrote {folder}; next:\n  cd {folder}\n  pip install -e '.[test]'\n  pytest")
    if proven:
        print(f"  {prove}")
    print(f"  flyrun experiment=compare_{name}\n  flyrun check compare_{name} --update")
    return 0


def _filled(text: str, names: dict[str, str]) -> str:
    """A template with its {{name}}; an object's name may hold one."""
    for _ in range(2):
        text = re.sub(r"\{\{(\w+)\}\}", lambda match: names[match[1]], text)
    return text


VERB = Verb(
    "new",
    "write a package of your own: a sampler, likelihood, dataset or section",
    run,
    about="""Writes a package, flyrun-NAME, that works as it is: one file to edit, its entry points, tests
    with a broken twin that they must find, an experiment beside flyrun's arms, and what runs `flyrun prove`
    and `flyrun check` in continuous integration.""",
    examples=("flyrun new sampler swift", "flyrun new sampler swift --jax", "flyrun new likelihood robust"),
)
VERB.takes("kind", metavar="KIND", choices=tuple(_KINDS), help="sampler, likelihood, dataset or section")
VERB.takes("name", metavar="NAME", help="its name on the command line: small letters, digits and _")
VERB.takes("--jax", action="store_true", help="a sampler in JAX (extra jax)")
VERB.takes("--folder", metavar="FOLDER", type=path, default=Path(), help="where to write it (default: here)")
