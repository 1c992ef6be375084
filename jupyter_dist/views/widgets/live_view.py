"""The view of a cell in which widgets of ranks are live, where a notebook shows it."""

import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

from jupyter_dist.options.output_options import OutputStyle
from jupyter_dist.protocol.messages import Output
from jupyter_dist.views.cell.display_place import can_replace

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.views.cell.cell_output import CellOutputView
    from jupyter_dist.views.widgets.rank_widgets import RankWidgets
    from jupyter_dist.views.widgets.widget_place import WidgetPlace


def choose_live_view(
    shell: object,
    cluster: "Cluster",
    world_size: int,
    *,
    shown: Collection[int] | None = None,
    style: OutputStyle | None = None,
) -> "CellOutputView":
    """Make the view that suits who reads this IPython shell, of a cell on `world_size` ranks.

    In a notebook that may run cells, and does not only look on, widgets of ranks are live, unless
    each cell has one final output.
    """
    from jupyter_dist.views.cell.cell_output import choose_view

    view = choose_view(
        shell,
        world_size=world_size,
        shown=shown,
        style=style,
        log_hint=", ".join(f"{host}:{path}" for host, path in cluster.log_dirs.items()),
        axes=cluster.axes,
    )
    is_final = style is not None and style.is_final
    if can_replace(shell) and not cluster.is_observer and not is_final:
        live = _LiveWidgets(cluster, style or OutputStyle())
        view.show_widget, view.order_widgets = live.show, live.order
        # Nothing of live widgets is imported before the first one.
        rank_widgets = sys.modules.get("jupyter_dist.views.widgets.rank_widgets")
        if rank_widgets is not None:
            rank_widgets.speak_for_this_cell(cluster)
    return view


class _LiveWidgets:
    """Those that one cell displays."""

    def __init__(self, cluster: "Cluster", style: OutputStyle) -> None:
        self._cluster, self._style = cluster, style
        self._widgets: RankWidgets
        self._places: list[WidgetPlace] = []

    def show(self, rank: int, output: Output) -> bool:
        """Show one; return whether it can be reached."""
        from jupyter_dist.views.widgets.rank_widgets import widgets_of

        self._widgets = widgets_of(self._cluster)
        place = self._widgets.show(rank, output)
        if place is not None:
            self._places.append(place)
        return place is not None

    def order(self) -> None:
        """Have them stand by rank, once all are there, and at least one is."""
        is_rank_after_rank = self._style.group_outputs == "rank"
        self._widgets.order(self._places, is_rank_after_rank=is_rank_after_rank)
