"""`%dist_allow`: what AI agents may do with the cluster of this notebook."""

from argparse import Namespace

from jupyter_dist.magics import options as accepted
from jupyter_dist.magics.command import MagicGroup, command, say


class GrantMagics(MagicGroup):
    """`%dist_allow`, for one shell."""

    @command(accepted.ALLOW)
    def dist_allow(self, options: Namespace) -> None:
        """Let AI agents act on this cluster for a time, or list what they may and did.

        Without a grant they only look. The token that is written is for your agent, and is written
        only once. A grant ends by its time, by --revoke, and with the cluster; a cell that was
        begun by it goes on. Agents never start, stop or take over a cluster.
        """
        from jupyter_dist.cluster.grants.giving import obey_options

        say(obey_options(self._current.get(), options).text)
