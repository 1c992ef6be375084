from fakes.checkpoint_files import make_manifest, staged

from jupyter_dist.checkpoint.format.manifest import Branch, Leaf, PartFile, plain_entry
from jupyter_dist.checkpoint.format.manifest_file import write_manifest
from jupyter_dist.checkpoint.storage.listing import list_checkpoints
from jupyter_dist.checkpoint.storage.staging import new_id


def manifest(step, **more):
    fields = {"kind": "variables", "structure": (Branch("dict", (0, 1), ("lr", "step")),), **more}
    leaves = [Leaf(f"['{name}']", (plain_entry(1, "replicated"),)) for name in ("lr", "step")]
    return make_manifest(step, leaves, **fields)


def save(directory, step, **more):
    """Put a checkpoint there as saving does; gives the path of its step."""
    made = manifest(step, **more)
    with staged(directory, step, made.id) as staging:
        staging.commit(made)
        return staging.final


def test_a_directory_and_those_in_it_are_listed_with_the_names_of_variables(tmp_path):
    save(tmp_path / "run", 1)
    save(tmp_path / "run", 2)
    save(tmp_path, 7, kind="tree")
    seen, problems = list_checkpoints(str(tmp_path))
    assert [(each.name, each.step) for each in seen] == [("", 7), ("run", 1), ("run", 2)]
    assert [each.variables for each in seen] == [(), ("lr", "step"), ("lr", "step")]
    assert seen[1].path == str(tmp_path / "run" / "step-00000001")
    assert (seen[1].saved_at, seen[1].world_size) == ("2026-11-22T15:04:05Z", 1)
    assert problems == ()


def test_what_is_damaged_is_told_and_the_others_are_listed(tmp_path):
    save(tmp_path / "run", 1)
    damaged = save(tmp_path / "run", 2) / "manifest.json"
    damaged.write_bytes(damaged.read_bytes().replace(b"nodeA", b"nodeB"))
    seen, (problem,) = list_checkpoints(str(tmp_path))
    assert [each.step for each in seen] == [1]
    assert str(damaged) in problem


def test_parts_that_are_not_here_are_named(tmp_path):
    part = PartFile("arrays-00000.safetensors", 5, 0, "nodeA", "0" * 32, 5)
    path = save(tmp_path, 1, files=(part,))
    (seen,), _ = list_checkpoints(str(tmp_path))
    assert (seen.missing, seen.nbytes) == (("arrays-00000.safetensors",), 5)
    (path / part.name).write_bytes(b"12345")
    (seen,), _ = list_checkpoints(str(tmp_path))
    assert seen.missing == ()


def test_what_is_being_saved_and_what_is_no_checkpoint_is_not_listed(tmp_path):
    (tmp_path / "step-x").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / ".hidden").mkdir()
    write_manifest(tmp_path / ".hidden", manifest(1))
    with staged(tmp_path, 3, new_id()):
        assert list_checkpoints(str(tmp_path)) == ((), ())


def test_a_directory_that_is_not_there_has_none(tmp_path):
    assert list_checkpoints(str(tmp_path / "nope")) == ((), ())


def test_a_file_in_place_of_a_directory_is_a_problem(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    seen, (problem,) = list_checkpoints(str(file))
    assert seen == ()
    assert str(file) in problem
