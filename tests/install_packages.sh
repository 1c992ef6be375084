#!/bin/sh
# Install programs that tests need when they are missing and we may; without them the tests that
# need them skip and say so.
#
#     sh tests/install_packages.sh PROGRAM:PACKAGE...
set -eu
PATH=$PATH:/usr/sbin:/sbin
missing=
for pair in "$@"; do
    command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair##*:}"
done
if [ -z "$missing" ]; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "Missing and not to be installed from here:$missing. Tests that need it will skip."
    exit 0
fi
# The tests start servers of their own; this machine shall not get one.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
apt-get update -qq &&
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        $missing >/dev/null ||
    echo "Not installed:$missing. Tests that need it will skip."
