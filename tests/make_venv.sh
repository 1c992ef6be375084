#!/bin/sh
# Make a virtual environment; on a bare Debian the module for it is a package of its own.
set -eu
python=$1
venv=$2
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "jupyter-dist needs Python 3.11 or newer; $("$python" --version) was found." >&2
    echo "Name another one: make PYTHON=/path/to/python3.12 ..." >&2
    exit 1
fi
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -qq -y python3-venv >/dev/null
    else
        echo "Python's venv module is missing. Install it first: sudo apt install python3-venv" >&2
        exit 1
    fi
fi
"$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --upgrade pip
