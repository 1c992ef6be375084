"""A bar for a share that is done, with words beside it, as text and as HTML."""

from jupyter_dist.views.cell.display_place import line_bundle

_WIDTH = 20


def bar_bundle(share: float | None, words: str, more: str = "") -> dict[str, str]:
    """Return the MIME bundle of a bar with its words and with markup below it.

    More than all of it is all of it. Without a share there is no bar.
    """
    if share is None:
        return line_bundle(words, more)
    done = min(1.0, share)
    blocks = round(done * _WIDTH)
    track = "width:200px;height:4px;background-color:rgba(128,128,128,0.25)"
    fill = f"width:{round(100 * done)}%;height:4px;background-color:rgb(59,130,246)"
    bar = f'<div style="{track}"><div style="{fill}"></div></div>'
    text = f"{'█' * blocks}{'░' * (_WIDTH - blocks)} {words}"
    return {**line_bundle(words, f"{bar}{more}"), "text/plain": text}
