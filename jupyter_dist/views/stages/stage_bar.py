"""A bar for a share that is done, as text and as HTML."""

_WIDTH = 20


def bar_text(share: float) -> str:
    """Return the bar in blocks; more than all of it is all of it."""
    done = round(min(1.0, share) * _WIDTH)
    return "█" * done + "░" * (_WIDTH - done)


def bar_html(share: float) -> str:
    """Return the same with inline styles only."""
    percent = round(100 * min(1.0, share))
    track = "width:200px;height:4px;background-color:rgba(128,128,128,0.25)"
    fill = f"width:{percent}%;height:4px;background-color:rgb(59,130,246)"
    return f'<div style="{track}"><div style="{fill}"></div></div>'
