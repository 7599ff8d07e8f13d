"""Whatever is typed as overrides ends in a run or in one line, never in a traceback or a surprise."""

from __future__ import annotations

import contextlib
import io

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flyrun.cli.main import main
from flyrun.experiments.config.arm import ARM_GROUPS, GROUPS
from flyrun.experiments.config.overrides import JOB_KEYS, read
from flyrun.experiments.runner.outcomes import RunResult
from flyrun.ground.errors import FlyrunError
from flyrun.ground.schema import SCHEMAS, keys

_FIELDS = sorted(
    {f"{group}.{key}" for group, known in SCHEMAS.items() for cls in known.values() for key in keys(cls)}
)
_OPTIONS = sorted({name for known in SCHEMAS.values() for name in known})
# What YAML, Hydra's grammar, OmegaConf and our own checks each take for something of their own.
_ODD = (
    *(
        "",
        "null",
        "true",
        "0",
        "-1",
        "1e999",
        "nan",
        "inf",
        "0.5",
        "1_000",
        "07",
        "1,2",
        "[1,2]",
        "[]",
        "[[1]]",
    ),
    *(
        "{}",
        "{a: 1}",
        "{a: {b: 1}}",
        "${x}",
        "${oc.env:HOME}",
        "${oc.env:NO_SUCH}",
        "${",
        "$",
        "???",
        "'",
        '"',
    ),
    *(
        "'a b'",
        '"a',
        "a=b",
        "=",
        "@",
        "a@b",
        "~",
        "+1",
        "\\",
        "\\,",
        "#",
        "%s",
        "{0}",
        "é",
        "\u202e",
        "\x00",
        "\t",
    ),
    *(
        "range(1,3)",
        "choice(1,2)",
        "sort(3,1)",
        "int(x)",
        "str(1)",
        "glob(*)",
        "interval(0,1)",
        "cast(",
        "shuffle()",
    ),
    *(
        "../x",
        "/",
        "~/x",
        "a" * 300,
        "_target_",
        "__class__",
        "1" * 400,
        "-",
        "--",
        "- a",
        "!!python/object:os.system",
    ),
)
_text = st.text(st.characters(codec="utf-8"), max_size=12)
_value = st.one_of(
    st.sampled_from(_ODD),
    st.sampled_from(_OPTIONS),
    st.integers().map(str),
    st.floats().map(str),
    st.lists(st.sampled_from(_ODD), max_size=3).map(lambda some: f"[{','.join(some)}]"),
    _text,
)
_key = st.one_of(
    st.sampled_from(_FIELDS),
    st.sampled_from([*GROUPS, *JOB_KEYS]),
    st.sampled_from(
        ["arms", "arms.regular", "title", "figures", "check", "arms.regular.prior", "defaults", "_self_"]
    ),
    st.tuples(st.sampled_from(["regular", "none", ""]), st.sampled_from(_FIELDS)).map(
        lambda two: "arms." + ".".join(two)
    ),
    st.tuples(st.sampled_from(ARM_GROUPS), _text).map(".".join),
    _text,
)
_word = st.tuples(
    st.sampled_from(["", "", "", "+", "++", "~"]), _key, st.sampled_from(["=", "=", "=", "", "@"]), _value
).map("".join)
# Words for Hydra itself may name folders to write to; flags are tested one by one.
_override = st.one_of(_word, _word, _text).filter(
    lambda word: not word.lstrip("+~").startswith(("hydra", "-"))
)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("examples", [100, 400])
def test_words_are_read_or_refused_in_one_line(examples):
    @settings(max_examples=examples)
    @given(st.lists(_override, min_size=1, max_size=3), st.booleans())
    def try_each(words, multirun):
        with contextlib.suppress(FlyrunError):
            read(words, multirun)

    try_each()


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory):
    """No run and no report; a folder of its own, which must stay empty."""
    folder = tmp_path_factory.mktemp("here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "flyrun.experiments.runner.launch.run",
            lambda job, console, summarise: RunResult(folder, "flyrun"),
        )
        patch.setattr("flyrun.experiments.report.build.build", lambda run_dir, console=None: None)
        patch.chdir(folder)
        yield folder


@pytest.mark.thorough
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(_override, min_size=1, max_size=2))
def test_a_whole_command_line_never_ends_in_a_traceback(stand_ins, words):
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = main(["experiment=toy_flymc", "only=regular", *words])
    lines = said.getvalue().splitlines()
    assert code in (0, 2)
    assert len(lines) == (1 if code else 0), lines
    assert all(line.startswith("flyrun: error: ") and "unexpected" not in line for line in lines), lines
    assert list(stand_ins.iterdir()) == []
