"""Arrays cut into boxes at random."""

from hypothesis import strategies as st

from jupyter_dist.checkpoint.format.sharding import whole_box

SHAPES = st.lists(st.integers(0, 7), max_size=4).map(tuple)


@st.composite
def tilings(draw, shape, most_cuts=6):
    """Boxes that cover a shape exactly once: it is cut in two again and again."""
    boxes = [whole_box(shape)]
    for _ in range(draw(st.integers(0, most_cuts)) if shape else 0):
        box = boxes.pop(draw(st.integers(0, len(boxes) - 1)))
        axis = draw(st.integers(0, len(shape) - 1))
        start, stop = box[axis]
        cut = draw(st.integers(start, stop))
        boxes += [
            (*box[:axis], (start, cut), *box[axis + 1 :]),
            (*box[:axis], (cut, stop), *box[axis + 1 :]),
        ]
    return draw(st.permutations(boxes))
