"""Tools by which AI agents look at clusters, over MCP: thin functions on the public API.

`tools.py` has them. Jupyter's own MCP server finds them by the entry point
`jupyter_server_mcp.tools`; `jupyter dist mcp` serves the same on standard input and output.
What an agent may do beyond looking the coordinator decides: decision 55.
"""
