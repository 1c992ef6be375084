"""Build a release of the last commit into dist/, check it, and say what it depends on.

    make release

1. The commit alone is taken, not what lies beside it, into two folders.
2. In each a source archive is built, and of that the wheel, which has to have the panel. The clock
   is that of the commit (SOURCE_DATE_EPOCH), and both builds have to be equal byte by byte.
3. twine, check-wheel-contents and pyroma look at them.
4. cyclonedx-py writes what the wheel brings along, as it is resolved today (CycloneDX, JSON).
5. The conda recipe gets the digest of the source archive.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
TOOLS = Path(sys.executable).parent
LOCK = "labextension/package-lock.json"
LONGEST_S = 900


class NotReleased(Exception):
    """The release cannot be made; the text says why, and what to do."""


def main() -> None:
    """Make the release; ends with status 1 and the reason where it cannot be made."""
    try:
        release()
    except NotReleased as problem:
        sys.exit(f"make release: {problem}")


def release() -> None:
    """Build, compare, check, describe."""
    with tempfile.TemporaryDirectory(prefix="jupyter-dist-release-") as name:
        folder = Path(name)
        commit = run("git", "rev-parse", "HEAD", cwd=ROOT).decode().strip()
        built = [build(folder / each, commit) for each in ("first", "second build")]
        version = find_version(folder / "first")
        check_changelog(folder / "first", version)
        compare(*built)
        shutil.rmtree(DIST, ignore_errors=True)
        DIST.mkdir()
        packages = [Path(shutil.copy2(path, DIST)) for path in sorted(built[0].iterdir())]
        run(TOOLS / "twine", "check", "--strict", *packages)
        sdist, wheel = sorted(packages, key=lambda path: path.suffix != ".gz")
        run(TOOLS / "check-wheel-contents", wheel)
        run(TOOLS / "pyroma", "--min", "10", sdist)
        describe_dependencies(folder / "venv", wheel, version)
        fill_recipe(sdist)
    for path in sorted(DIST.iterdir()):
        print(f"{digest(path)}  {path.stat().st_size:>9,} bytes  dist/{path.name}")


def build(folder: Path, commit: str) -> Path:
    """Build both packages of a commit in a folder; returns the folder that they are in."""
    committed = run("git", "archive", commit, cwd=ROOT)
    with tarfile.open(fileobj=BytesIO(committed)) as archive:
        archive.extractall(folder, filter="data")
    # What npm has installed for the working tree, if that has the same lock.
    if (folder / LOCK).read_bytes() != (ROOT / LOCK).read_bytes():
        raise NotReleased(f"{LOCK} has changes that are not committed. Commit them first.")
    shutil.copystat(ROOT / LOCK, folder / LOCK)
    (folder / "labextension" / "node_modules").symlink_to(ROOT / "labextension" / "node_modules")
    moment = run("git", "log", "-1", "--format=%ct", commit, cwd=ROOT).decode().strip()
    run(
        sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", cwd=folder,
        SOURCE_DATE_EPOCH=moment, JUPYTER_DIST_LABEXTENSION="require",
    )  # fmt: skip
    return folder / "dist"


def find_version(sources: Path) -> str:
    """Read the version of these sources."""
    text = (sources / "jupyter_dist" / "version.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    assert found is not None, text
    return found[1]


def check_changelog(sources: Path, version: str) -> None:
    """Raise NotReleased unless the changelog has this version, and nothing waits for it."""
    waiting = sorted(path.name for path in (sources / "changes").glob("+*"))
    if waiting or f"\n## {version} " not in (sources / "CHANGELOG.md").read_text(encoding="utf-8"):
        raise NotReleased(
            f"CHANGELOG.md of the last commit is not that of {version}"
            f"{''.join(f'; changes/{name} waits' for name in waiting)}. "
            "Run `make changelog`, read it, commit it."
        )


def compare(first: Path, second: Path) -> None:
    """Raise NotReleased unless both folders hold the same files, byte by byte."""
    digests = [{path.name: digest(path) for path in each.iterdir()} for each in (first, second)]
    if digests[0] != digests[1]:
        raise NotReleased(f"two builds of one commit differ: {digests[0]} and {digests[1]}")


def describe_dependencies(folder: Path, wheel: Path, version: str) -> None:
    """Install the wheel alone into a new environment, and write what is there then."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel)
    run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "pip", "setuptools")
    said = run(
        TOOLS / "cyclonedx-py", "environment", "--output-reproducible", "--mc-type", "library",
        "--pyproject", ROOT / "pyproject.toml", python,
    )  # fmt: skip
    bill = json.loads(said)
    bill["metadata"]["component"]["version"] = version  # pyproject.toml leaves it to version.py
    (DIST / f"jupyter_dist-{version}.cdx.json").write_text(f"{json.dumps(bill, indent=1)}\n")


def fill_recipe(sdist: Path) -> None:
    """Write the conda recipe of this release: it names the source archive by its digest."""
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    filled = re.sub(r"(?m)^( +sha256: ).*$", rf"\g<1>{digest(sdist)}", recipe)
    (DIST / "recipe.yaml").write_text(filled, encoding="utf-8")


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run(*command: str | Path, cwd: Path = ROOT, **variables: str) -> bytes:
    """Run a command and return its stdout; raises NotReleased with its words where it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, env={**os.environ, **variables}, capture_output=True, check=False,
        timeout=LONGEST_S,
    )  # fmt: skip
    if done.returncode:
        said = (done.stdout + done.stderr).decode(errors="replace").strip()
        raise NotReleased(f"{' '.join(words)} ended with status {done.returncode}:\n{said}")
    return done.stdout


if __name__ == "__main__":
    main()
