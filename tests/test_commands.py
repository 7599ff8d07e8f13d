"""Every command printed on a page, in a help text, in the Makefile or in a message runs as printed.

The faults: options or files that are not there, brackets that zsh takes for a pattern, a comment on the line
(zsh passes it on as words), and two commands of which the second would put its table over the first one's.
"""

import ast
import functools
import re
import shlex

import numpy as np
import pytest

from flyrun.cli.main import main
from flyrun.cli.overview import overview
from flyrun.cli.verbs import VERBS, verb
from flyrun.cli.verbs import fit as arguments
from flyrun.experiments.config.catalogue import options
from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.config.overrides import read
from flyrun.experiments.gold import store
from flyrun.ground.paths import conf_dir
from flyrun.ground.schema import quoted
from flyrun.tables import pieces
from tests.stored import write_three_arms

ROOT = conf_dir().parent
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
_COMMAND = re.compile(r"(\.venv/bin/)?(flyrun|make) \S")
_PLACEHOLDER = re.compile(r"(?<![A-Za-z])(?!HEAD)[A-Z]{3,}|…|\.\.\.")
#: a plug-in's, and those of files that a page has the reader write or fetch
_OF_THE_READER = re.compile(
    r"barker|plain_walk|flipped|arena[ _]mine|--config-dir|(hce_gap_pce|moldata)|fit \w+\.csv|--model list"
)


def on_pages():
    for path in PAGES:
        text = path.read_text("utf-8").replace("\\\n", " ")
        blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        lines = [line for block in blocks for line in block.splitlines()]
        for line in [*lines, *re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)]:
            yield path.name, line.strip()


def in_help():
    for name, text in [("flyrun", overview()), *((name, verb(name).format_help()) for name in VERBS)]:
        for line in text.partition("\nExamples\n")[2].splitlines():
            yield name, line.strip()


def in_the_makefile():
    variables = dict(re.findall(r"^([A-Z]+) \??= *(.*)$", MAKEFILE, re.MULTILINE))
    for line in re.findall(r"^\t(.*\$\(FLYRUN\).*)$", MAKEFILE, re.MULTILINE):
        for name, value in (variables | {"FLYRUN": "flyrun", "ARGS": ""}).items():
            line = line.replace(f"$({name})", value)
        yield "Makefile", line.strip()


@functools.cache
def in_messages():
    """What stands between backticks in a text of flyrun's own, with VALUE for what is put in."""
    found = []
    for path in sorted((ROOT / "flyrun").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        inner = {
            id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                text = "".join(v.value if isinstance(v, ast.Constant) else "VALUE" for v in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
                text = node.value
            else:
                continue
            for line in re.findall(r"`([^`\n]+)`", text):
                found.append((path.name, line))
    return found


def commands(*sources):
    found = ((place, line) for source in sources for place, line in source() if _COMMAND.match(line))
    return list(dict.fromkeys(found))


def whole(*sources):
    """The words of those that have no place for something else; without the folder of the program."""
    for place, line in commands(*sources):
        if not _PLACEHOLDER.search(line) and not _OF_THE_READER.search(line):
            yield place, shlex.split(line.removeprefix(".venv/bin/"))


PRINTED = [on_pages, in_help, in_the_makefile]


@pytest.mark.thorough
def test_there_are_commands_in_every_place():
    counts = [len(commands(source)) for source in (*PRINTED, in_messages)]
    assert min(counts) > 20, counts


@pytest.mark.thorough
def test_zsh_takes_every_command_as_it_is():
    for place, line in commands(*PRINTED, in_messages):
        bare = re.sub(r"""'[^']*'|"[^"]*"|\\.""", "", line)
        assert not re.search(r"[][{}()*?<>;&#]|(^|\s)[~=]", bare), f"{place}: {line}"


def test_words_in_messages_are_quoted_for_zsh():
    for word in ("only=[a,b]", "a b", "a*", "what?", "{x}", "~/table.csv", "it's", "$HOME", 'say "so"'):
        said = quoted(word)
        assert shlex.split(said) == [word]
        assert said[0] in "'\"", word


def test_make_has_every_target():
    for place, (program, *words) in whole(*PRINTED, in_messages):
        targets = [word for word in words if "=" not in word] if program == "make" else []
        for target in targets:
            assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), f"{place}: make {target}"


def is_run(words):
    return words[0] == "flyrun" and ("=" in words[1] or words[1].startswith("-")) and "=" in " ".join(words)


def job_of(words):
    """What a command composes, of a sweep the first values; `flyrun arena NAME` composes too. Or nothing."""
    if words[:2] == ["flyrun", "arena"] and words[2:3] not in (["score"], []):
        return (f"experiment=arena_{words[2]}", *words[3:])
    if not is_run(words) or "--cfg" in words:
        return ()
    swept = "-m" in words
    typed = [word for word in words[1:] if "=" in word and not word.startswith("-")]
    entries = [entry for entry in read(typed, swept) if not entry.is_hydra]
    of_all = "-".join(e.text for e in entries if e.swept)
    name = [f"name=swept-{re.sub(r'[^a-z0-9.-]', '_', of_all)}"] if swept else []
    return (*(e.text.split(",")[0] if e.swept else e.text for e in entries), *name)


@pytest.mark.thorough
def test_runs_compose_and_none_would_replace_anothers_results():
    jobs = {job: place for place, words in whole(*PRINTED) if (job := job_of(words))}
    to_default = [job[0] for job in jobs if len(job) > 1 and not any(w.startswith("name=") for w in job)]
    held = {}
    for words, place in jobs.items():
        if len(words) == 1 and words[0] not in to_default:  # an experiment, with no other of its name
            assert words[0].removeprefix("experiment=") in options("experiment"), f"{place}: {words}"
            continue
        job = compose_job(words)
        for arm in job.arms:
            settings, key = arm.key_settings(), (job.results_dir, job.name, arm.name)
            before, other = held.setdefault(key, (settings, words))
            assert before == settings, f"{place}: {shlex.join(words)} after {shlex.join(other)}"
    assert len(held) > 50


def test_tables_are_there_and_have_the_columns():
    seen = 0
    for place, words in whole(*PRINTED):
        asked = words[1] == "fit" and len(words) > 3 and not re.match("folder|s3:", words[2])
        if asked or (words[1] == "plan" and "--target" in words):
            there = pieces.names(ROOT / words[2])
            target = words[words.index("--target") + 1] if "--target" in words else None
            if asked:
                target = arguments.parse([str(ROOT / words[2]), *words[3:]]).target
            assert target in there, place
            seen += 1
        for word in words:
            if word.startswith("dataset.path="):
                assert pieces.names(ROOT / word.partition("=")[2])
    assert seen > 3


def test_commands_that_only_tell_run(capsys):
    seen = 0
    for place, (program, *words) in whole(*PRINTED, in_messages):
        tells = (words[0] in ("list", "info") and words != ["info"]) or words in (["data"], ["gold"])
        if program == "flyrun" and (tells or {"--help", "--version"} & {*words}):
            assert main(words) == 0, f"{place}: {words}: {capsys.readouterr().err}"
            seen += 1
    assert seen > 8


def test_messages_name_commands_that_there_are():
    for place, line in commands(in_messages):
        first = line.split()[1]
        known = first in VERBS or first.startswith("-") or "=" in first
        assert known or line.startswith("make") or _PLACEHOLDER.search(first), f"{place}: {line}"


@pytest.fixture
def a_readers_folder(tmp_path, monkeypatch):
    """Where a reader is: the tables, finished runs of the names that are printed, draws of another tool."""
    (tmp_path / "datasets").symlink_to(ROOT / "datasets")
    for name in ("mnist_logreg", "small_q", "other_q", "toy_flymc", "a", "b", "again", "again_b"):
        write_three_arms(tmp_path / "results/runs" / name, seeds=3)
    np.savez(tmp_path / "draws.npz", theta=store.load("german_credit").draws[:1000])
    monkeypatch.chdir(tmp_path)


#: minutes each, or of a checkout's history: their words are read above, and their verbs are tested elsewhere
LONG = (
    "prove",
    "gold build",
    "gold verify",
    "data build",
    "check",
    "plan tall",
    "predict",
    "compare HEAD",
    "compare 'HEAD",
    "arena score",
)


def of_verbs():
    """What is typed after `flyrun`, of the commands whose verb is no run of an experiment."""
    for _, words in whole(on_pages, in_help):
        line = shlex.join(words[1:])
        named = len(words) == 2 and words[1] not in ("list", "data", "gold")  # a command is spoken of
        of_verb = words[0] == "flyrun" and words[1] in VERBS and not job_of(words) and not named
        if of_verb and not line.startswith(LONG):
            yield line


def trials():
    for place, words in whole(on_pages):
        if place == "chains.md" and "only=firefly_hmc" in words:
            yield shlex.join([*job_of(words), "protocol=smoke", "executor.workers=1", "results_dir=smoke"])


@pytest.mark.slow
@pytest.mark.parametrize("line", sorted({*of_verbs(), *trials()}))
def test_commands_run_as_printed(line, a_readers_folder, capsys):
    assert main(shlex.split(line)) == 0, capsys.readouterr().err
