"""One address for clients of the Debug Adapter Protocol, as VS Code: ranks are its sessions."""
