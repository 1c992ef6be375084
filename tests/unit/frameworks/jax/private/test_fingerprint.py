"""Programs that compute the same have the same fingerprint, wherever they stand."""

from jupyter_dist.frameworks.jax.private.fingerprint import (
    find_groups,
    fingerprint,
    has_collectives,
)

PROGRAM = """\
HloModule jit_step, is_scheduled=true, frontend_attributes={fingerprint="1a2b"}

FileNames
1 "/home/one/train.py"

StackFrames
1 {file_location_id=1 parent_frame_id=1}

%region (a: f32[], b: f32[]) -> f32[] {
  ROOT %add.1 = f32[] add(%a, %b), metadata={op_name="jit(step)" stack_frame_id=1}
}

ENTRY %main (p: f32[2]) -> f32[2] {
  %c = f32[2]{0} constant({1, 2})
  ROOT %r = f32[2]{0} all-reduce(%p), to_apply=%region, backend_config={"partitions":["2"]}
}
"""


def test_source_lines_and_machines_make_no_difference():
    other = (
        PROGRAM.replace("/home/one", "/home/two")
        .replace("stack_frame_id=1", "stack_frame_id=7")
        .replace('["2"]', '["16"]')
        .replace("1a2b", "3c4d")
    )
    assert fingerprint(other, (0, 1)) == fingerprint(PROGRAM, (0, 1))


def test_operations_constants_and_the_order_of_devices_do():
    found = {
        fingerprint(PROGRAM, (0, 1)),
        fingerprint(PROGRAM, (1, 0)),
        fingerprint(PROGRAM.replace("{1, 2}", "{1, 3}"), (0, 1)),
        fingerprint(PROGRAM.replace(" add(", " maximum("), (0, 1)),
    }
    assert len(found) == 4


def test_programs_in_which_devices_meet_are_told_from_others():
    assert has_collectives(PROGRAM)
    assert has_collectives("%s = (f32[2], f32[2]) all-gather-start(%p), dimensions={0}")
    assert has_collectives('%c = f32[2] custom-call(%p), custom_call_target="NcclAllReduce"')
    assert not has_collectives(PROGRAM.replace("all-reduce(", "add("))


def test_groups_of_devices_are_found_in_every_notation():
    text = (
        "HloModule step, replica_count=4\n"
        "  %a = f32[8]{0} all-reduce(%p), channel_id=1, replica_groups={{0,1},{2,3}}, to_apply=%add\n"
        "  %b = f32[8]{0} all-reduce(%a), replica_groups=[2,2]<=[4]T(1,0), use_global_device_ids=true\n"
        "  ROOT %c = f32[8]{0} collective-permute(%b), source_target_pairs={{0,1},{1,0}}\n"
    )
    assert find_groups(text) == {
        "replica_groups={{0,1},{2,3}}",
        "replica_groups=[2,2]<=[4]T(1,0)",
        "source_target_pairs={{0,1},{1,0}}",
    }
