"""Notebooks as files: read before a job, and written while it runs."""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_dist.cli.jobs.junit import check_writable
from jupyter_dist.errors import UsageError

if TYPE_CHECKING:
    from nbformat import NotebookNode

_VERSION = 4


def check_installed() -> None:
    """Raise UsageError where the libraries that run notebooks are missing."""
    try:
        import nbclient  # noqa: F401
        import nbformat  # noqa: F401
    except ImportError as problem:
        raise UsageError(
            f"{problem.name} is missing, which runs notebooks: "
            "pip install 'jupyter-dist[notebook]'."
        ) from None


def read_notebook(path: Path) -> "NotebookNode":
    """Return a notebook. Raise UsageError for what is none, or is none of Python."""
    import nbformat

    notebook: NotebookNode
    try:
        notebook = nbformat.read(path, as_version=_VERSION)
        nbformat.validate(notebook)
    except OSError as problem:
        raise UsageError(f"{path} cannot be read: {problem.strerror}.") from None
    except (ValueError, AttributeError, KeyError, TypeError, nbformat.ValidationError) as problem:
        reason = (str(problem) or type(problem).__name__).splitlines()[0][:160]
        raise UsageError(
            f"{path} is not a notebook of Jupyter: {reason.rstrip('.')}. Open it in Jupyter and "
            "save it again, or take it from where it came."
        ) from None
    language = notebook.metadata.get("kernelspec", {}).get("language", "python")
    if language.lower() not in ("python", "ipython"):
        raise UsageError(f"{path} is a notebook in {language}; only those in Python have ranks.")
    return notebook


def check_output(output: Path, notebook: Path) -> None:
    """Raise UsageError for an output that could not be written, or would overwrite its input."""
    if output.exists() and output.samefile(notebook):
        raise UsageError(
            f"--output {output}: that is the notebook itself, which stays as it is. "
            "Name another file."
        )
    check_writable("--output", output)


def write_notebook(notebook: "NotebookNode", path: Path) -> None:
    """Write a notebook; the file has the old one or the new one as a whole. Raise OSError."""
    import nbformat

    text = nbformat.writes(notebook, version=_VERSION)
    handle, draft = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
        os.chmod(draft, mode)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def _umask() -> int:
    """Return the mask of new files; it can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
