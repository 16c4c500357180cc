#!/bin/sh
# What the machine itself must have: Python >= 3.11 with venv, git, and bubblewrap for the sandboxes.
# As root with apt it is installed; otherwise one line says what is missing. `system.sh tests` also wants a browser,
# a PostgreSQL server and the tools of two more tiers of isolation; where they cannot be had, the tests that need them
# are skipped by name.
set -eu
python=${PYTHON:-python3}
missing=
command -v bwrap >/dev/null 2>&1 || missing="$missing bubblewrap"
command -v git >/dev/null 2>&1 || missing="$missing git"
command -v "$python" >/dev/null 2>&1 || missing="$missing python3"
"$python" -c 'import venv, ensurepip' >/dev/null 2>&1 || missing="$missing python3-venv"
if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        apt-get update -qq
        # shellcheck disable=SC2086 - a list of packages
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
    else
        echo "error: this machine lacks:$missing" >&2
        echo "hint: install it with your package manager, for example: sudo apt-get install$missing" >&2
        exit 1
    fi
fi
if [ "${1:-}" = tests ]; then
    wanted=
    browser=
    for name in chromium-headless-shell chromium chromium-browser google-chrome; do
        ! command -v "$name" >/dev/null 2>&1 || browser=$name
    done
    [ -n "$browser${PLAYWRIGHT_CHROMIUM_EXECUTABLE_PATH:-}" ] || wanted="$wanted chromium-headless-shell"
    [ -d /usr/lib/postgresql ] || command -v postgres >/dev/null 2>&1 || wanted="$wanted postgresql"
    for name in podman runc runsc; do  # two more tiers of isolation: env.isolation=container and =gvisor
        command -v "$name" >/dev/null 2>&1 || [ -x "/usr/sbin/$name" ] || wanted="$wanted $name"
    done
    if [ -n "$wanted" ]; then
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
            apt-get update -qq
            # shellcheck disable=SC2086 - a list of packages
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $wanted >/dev/null
        else
            echo "note: without$wanted the tests that need it are skipped" >&2
        fi
    fi
fi
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "error: $python is older than 3.11" >&2
    echo "hint: make PYTHON=python3.11 …" >&2
    exit 1
}
