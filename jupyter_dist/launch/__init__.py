"""How agents get onto hosts. A launcher is shaped like Popen."""
