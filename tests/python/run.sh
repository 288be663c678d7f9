#!/bin/sh
# Runs a test of the Python package. Exit status 77 (a skip): there is no python3.
#
# Usage: run.sh TEST.py. The environment: see the test, and support.py.
set -eu
if ! command -v python3 >/dev/null; then
    echo "there is no python3"
    exit 77
fi
cd "$(dirname "$0")"
# -B: no __pycache__ in the source; -X dev: Python warns of unclosed files and the like
exec python3 -B -X dev "$1" -v
