#!/bin/sh
# Runs the tests of the Go package, after go vet. With HOLDFAST_TEST_DEEP=1 they run under Go's race
# detector, too.
set -eu
. "$(dirname "$0")/environment.sh"
cd "$(dirname "$0")/../../go/holdfast"
go vet ./...
go test -count=1 -timeout 10m .
if [ "${HOLDFAST_TEST_DEEP:-}" = 1 ]; then
    go test -race -count=1 -timeout 10m .
fi
