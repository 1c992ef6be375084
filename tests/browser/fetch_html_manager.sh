#!/bin/sh
# Fetch what draws widgets on pages other than JupyterLab's, if npm is there: two files, of one package
# of npm each (5.4 MB to fetch, 3.7 MB kept), and without the 131 packages that they are built from.
#
#     sh tests/browser/fetch_html_manager.sh FOLDER
set -eu
folder=$1
if ! command -v npm >/dev/null; then
    echo "npm is missing: the tests of @jupyter-widgets/html-manager will skip."
    exit 0
fi
mkdir -p "$folder"
cd "$folder"

fetch() { # PACKAGE@VERSION FILE SHA256
    archive=$(npm pack --silent "$1")
    tar -xzf "$archive" --strip-components="$(echo "package/$2" | tr -cd / | wc -c)" "package/$2"
    rm "$archive"
    echo "$3  ${2##*/}" | sha256sum --check --quiet
}

fetch requirejs@2.3.8 require.js c1fc6b1d53af7522f78d664922abb32acac64ed0ecccb8f907f1e6fc7262563a
fetch @jupyter-widgets/html-manager@1.0.15 dist/embed-amd.js ca87dff57c70ffb2658794fde0eab0e27e5f5472a1f5df7ab2b08e1039fc4b72
