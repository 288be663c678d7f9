#!/bin/sh
# Runs the tests of the Go package, after go vet. With HOLDFAST_TEST_DEEP=1 they run under Go's race
# detector, too.
set -eu
. "$(dirname "$0")/environment.sh"
cd "$(dirname "$0")/../../go/holdfast"
go vet ./...
# A build without cgo fails with a name that says why.
said=$(CGO_ENABLED=0 go build ./... 2>&1) && { echo "a build without cgo succeeds"; exit 1; }
case $said in
*"undefined: holdfast_needs_cgo"*) ;;
*) echo "a build without cgo says: $said"; exit 1 ;;
esac
go test -count=1 -timeout 10m .
if [ "${HOLDFAST_TEST_DEEP:-}" = 1 ]; then
    go test -race -count=1 -timeout 10m .
fi
