#!/usr/bin/env bash
# The unit's sandbox is as strict as docs/SECURITY.md says. Exit status 77 (a skip): there is no
# systemd-analyze.
#
# Usage: unit.sh SOURCE_DIR
set -euo pipefail
cd "$1"

command -v systemd-analyze >/dev/null || exit 77
# The score by systemd 252, in tenths, and a little more, because later versions check more.
most=20
systemd-analyze security --offline=yes --threshold=$most --no-pager systemd/holdfastd.service |
    grep 'Overall exposure' || exit 1
