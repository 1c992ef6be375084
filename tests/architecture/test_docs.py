"""What the documentation promises is there: commands, options, keys, files."""

import re
import shlex

import pytest

from jupyter_dist.cli.__main__ import build_parser
from jupyter_dist.cluster.spec.host_list import parse_hostfile, parse_hosts
from jupyter_dist.cluster.spec.spec_file import read_spec, write_spec
from jupyter_dist.cluster.spec.spec_keys import CLUSTER, DEFAULTS, HEALTH, HOST
from jupyter_dist.cluster.spec.specification import specify
from jupyter_dist.magics.options import PARSERS, START
from jupyter_dist.model.spec.cluster_spec import check_spec

from .sources import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
EXAMPLES = sorted((ROOT / "docs" / "deploy").iterdir())
HOSTS = (ROOT / "docs" / "how_to" / "hosts.md").read_text()
MAGICS = {parser.prog: parser for parser in PARSERS}


def blocks(text, language):
    """The contents of fenced blocks of this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def code_lines(text):
    """Every line of code that a reader may copy, however it is set off."""
    inside, found = False, []
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside
        elif inside or line.startswith("    "):
            found.append(line.strip())
    return found


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES], ids=name_of)
def test_commands_that_a_page_shows_are_accepted(page):
    text = page.read_text()
    if page in EXAMPLES:  # there they stand in comments
        text = re.sub(r"^ *# ?", "", text, flags=re.MULTILINE)
    for line in code_lines(text):
        first = line.partition(" ")[0]
        if first.startswith(("%dist_", "%%")):
            MAGICS[first].read(line.removeprefix(first))
        elif line.startswith(("jupyter dist ", "jupyter-dist ")):
            words = shlex.split(line.replace("jupyter dist", "jupyter-dist", 1), comments=True)
            build_parser().parse_args(words[1:])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        if target.startswith(("http:", "https:")):
            continue
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}
            assert anchor in anchors, target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_column_of_a_table_has_a_name(page):
    for heads in re.findall(r"^\|(.+)\|\n\|[ :|-]+\|$", page.read_text(), re.MULTILINE):
        assert all(head.strip() for head in heads.split("|")), heads


# --- the page about hosts ---


def test_hosts_may_be_named_as_the_page_says():
    table = HOSTS.partition("| `--hosts` | means |")[2].partition("\n\n")[0]
    forms = re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)
    assert len(forms) >= 8
    for form in forms:
        assert parse_hosts(form)


def test_the_host_file_of_the_page_is_read():
    (text,) = blocks(HOSTS, "hostfile")
    hosts = parse_hostfile(text, "hosts")
    assert {(host.name, host.slots) for host in hosts} >= {("node01", 8), ("node04", 8)}
    assert hosts[-1].user == "alice"


def keys_of(text):
    """Every key that the example sets, by the table in which it stands."""
    tables, found = re.split(r"^\[+(\w+)\]+.*$", text, flags=re.MULTILINE), {}
    for name, body in zip(["", *tables[1::2]], tables[0::2], strict=True):
        keys = re.findall(r"^(\w+) = ", body, re.MULTILINE)
        found.setdefault(name, set()).update(keys)
    return found


def test_the_specification_of_the_page_has_every_key_and_is_read():
    (text,) = blocks(HOSTS, "toml")
    found = keys_of(text)
    assert found[""] | {"env"} == set(CLUSTER)
    assert "env" in found, "as a table"
    assert found["health"] == set(HEALTH)
    assert found["defaults"] | found["hosts"] == set(HOST)
    assert found["defaults"] <= set(DEFAULTS)
    spec = check_spec(read_spec(text, "/folder/cluster.toml"))
    assert [host.name for host in spec.hosts] == ["node01", "node02", "old-node"]
    assert spec.world_size == 18
    assert spec.cwd == "/folder/project"
    assert spec.hosts[2].setup == ("source /etc/profile.d/modules.sh", "module load cuda/11.8")


def test_a_specification_that_is_written_is_read_again(tmp_path):
    spec = specify("localhost:2", name="x", cwd=tmp_path)
    assert read_spec(write_spec(spec), tmp_path / "cluster.toml") == spec


# --- decisions ---


DECISIONS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))


@pytest.mark.parametrize("path", DECISIONS, ids=name_of)
def test_a_decision_says_its_status_context_and_consequences(path):
    text = path.read_text()
    number = int(path.name[:4])
    assert text.startswith(f"# {number}. ")
    parts = [text.index(part) for part in ("\nStatus: ", "\n**Context.** ", "\n**Decision.** ")]
    assert sorted([*parts, text.index("\n**Consequences.** ")])[:3] == parts


def test_decisions_are_numbered_one_by_one():
    assert [int(path.name[:4]) for path in DECISIONS] == list(range(1, len(DECISIONS) + 1))


# --- tests that pages name ---


@pytest.mark.parametrize(
    ("page", "least"),
    [("reference/collectives", 30), ("explanation/failures", 12), ("how_to/jax", 30)],
)
def test_every_test_that_a_page_names_is_there(page, least):
    text = (ROOT / "docs" / f"{page}.md").read_text()
    programs = [path.read_text() for path in ROOT.glob("tests/**/test_*.py")]
    defined = {name for program in programs for name in re.findall(r"def (test_\w+)", program)}
    files = {path.stem for path in ROOT.glob("tests/**/test_*.py")}
    named = set(re.findall(r"`(?:tests/processes/)?(test_\w+)(?:\.py)?`", text))
    assert len(named) > least
    assert named <= defined | files, named - defined - files


def test_options_of_failures_are_on_their_page():
    page = (ROOT / "docs" / "explanation" / "failures.md").read_text()
    for parser, flag in ((MAGICS["%%spmd"], "--on-error"), (START, "--on-loss")):
        (action,) = [each for each in parser._actions if flag in each.option_strings]
        for choice in action.choices:
            assert re.search(rf"^\| `(?:{flag} )?{choice}` \|", page, re.MULTILINE), choice


# --- the page about JAX ---


JAX = (ROOT / "docs" / "how_to" / "jax.md").read_text()


def test_the_page_about_jax_has_every_option_of_a_start_that_concerns_it():
    table = JAX.partition("\n## Start\n")[2].partition("\n\nA cell on")[0]
    shown = set(re.findall(r"%dist_start (--[a-z-]+)", table))
    there = {flag for action in START._actions for flag in action.option_strings}
    assert shown == {"--jax", "--no-jax", "--cpu-devices", "--devices-per-engine"}
    assert shown <= there


def test_the_page_about_jax_has_every_test_of_multihost_utils():
    program = (ROOT / "tests" / "processes" / "test_jax_multihost.py").read_text()
    tests = set(re.findall(r"def (test_\w+)", program))
    tests.remove("test_every_function_of_multihost_utils_is_used_here")  # it is about this table
    assert [name for name in sorted(tests) if f"`{name}`" not in JAX] == []


def test_private_parts_of_jax_stand_on_its_page_and_only_where_it_says():
    folder = ROOT / "jupyter_dist"
    places = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if re.search(r"\bjax\._src\b|[\"']_src\b", path.read_text())
    }
    assert places
    assert [place for place in sorted(places) if f"`{place}`" not in JAX] == []
