"""JupyterLab's debugger on a rank: messages between a page and the rank, by no kernel."""
