import ast
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_dist.cli.export.cells import place_cells
from jupyter_dist.cli.export.program import export

LAUNCHERS = ("torchrun", "srun", "mpirun", "script")


def exported(*sources, to="torchrun"):
    cells = place_cells([(source, None) for source in sources])
    return export(cells, to, Path("train.ipynb"), "train.py")


def run(program, tmp_path, **env):
    """Run a program by itself; give what it prints."""
    file = tmp_path / "train.py"
    file.write_text(program)
    words = [sys.executable, file]
    return subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout


def test_cells_on_ranks_become_code_and_others_are_left_out():
    found = exported(
        "%load_ext jupyter_dist\n%dist_start -n 4",
        "%%spmd --setup -o made\nx = rank",
        "print('in the notebook')",
        "%dist_auto on",
        "y = x + world_size",
        "%%local\nprint('here')",
        "%dist_auto off",
        "print('here again')",
    )
    assert found.obstacles == ()
    assert found.left_out == ("cell 3", "cell 6", "cell 8")
    body = found.program.partition("# --- cell 2\n")[2]
    assert body == "x = rank\n\n# --- cell 5\ny = x + world_size\n"


@pytest.mark.parametrize("to", LAUNCHERS)
def test_each_program_is_python_and_names_its_launcher(to):
    program = exported("%%spmd\nprint(rank)", to=to).program
    assert to.removesuffix("un") in ast.get_docstring(ast.parse(program))
    assert "jupyter_dist" not in program


def test_a_script_is_rank_0_of_1(tmp_path):
    code = "%%spmd\nimport os\nprint(rank, world_size, local_rank, os.environ['MASTER_ADDR'])"
    assert run(exported(code, to="script").program, tmp_path) == "0 1 0 127.0.0.1\n"


@pytest.mark.parametrize(
    ("visible", "seen"), [(None, "3"), ("4,5,6,7", "7"), ("GPU-a", "GPU-a"), ("4,5", "5")]
)
def test_a_rank_sees_one_device_as_in_the_notebook(tmp_path, visible, seen):
    program = exported("%%spmd\nimport os\nprint(os.environ['CUDA_VISIBLE_DEVICES'])").program
    env = {"RANK": "7", "WORLD_SIZE": "8", "LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "4"}
    env |= {"CUDA_VISIBLE_DEVICES": visible} if visible else {}
    assert run(program, tmp_path, **env) == f"{seen}\n"


def test_jax_is_initialized_once_before_anything_uses_it():
    program = exported(
        "%%spmd\nimport jax\nif True:\n    jax.distributed.initialize()\nprint(jax.devices())"
    ).program
    assert program.count("jax.distributed.initialize(") == 1
    assert program.index("jax.distributed.initialize(") < program.index("# --- cell 1")
    ast.parse(program)


def test_who_initializes_jax_with_arguments_does_it_alone():
    code = "%%spmd\nimport jax\njax.distributed.initialize('a:1', 4, rank)"
    assert exported(code).program.count("jax.distributed.initialize(") == 1


def test_a_group_of_torch_is_destroyed_in_the_end():
    program = exported(
        "%%spmd\nimport torch.distributed as dist\ndist.init_process_group()"
    ).program
    assert program.rstrip().endswith("torch.distributed.destroy_process_group()")
    assert "destroy" in exported("%%spmd\nimport torch").program
    assert "destroy" not in exported("%%spmd\nimport math").program
