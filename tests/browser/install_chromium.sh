#!/bin/sh
# Install Chromium when it is missing and we may; without it the browser tests skip and say so.
set -eu
if [ -n "${JD_CHROMIUM:-}" ] || command -v chromium >/dev/null || command -v google-chrome >/dev/null; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "Chromium is missing and cannot be installed from here: the browser tests will skip."
    exit 0
fi
apt-get update -qq &&
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        chromium fonts-dejavu-core fonts-noto-color-emoji >/dev/null ||
    echo "Chromium could not be installed: the browser tests will skip."
