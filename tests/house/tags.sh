#!/usr/bin/env bash
# In the code of the product no two structs, unions or enums have the same name, wherever they are
# defined. So a reader who has met one of them knows what its name means everywhere. Prints each
# name that is defined twice, with both places, and fails then.
#
# In agent/core a header NAME.h does not define struct NAME, because a module's state is opaque to
# the others: it is defined in NAME.c or in NAME_private.h. Prints each struct NAME that a header
# NAME.h defines, and fails then. The structs of agent/core/base and struct record are plain values,
# so their headers define them.
#
#   tests/house/tags.sh
set -euo pipefail
cd -- "$(dirname -- "$0")/../.."
mapfile -t files < <(find agent text proto libclient cli include examples -name '*.[ch]' -o -name '*.hpp' | sort)
awk '
    match($0, /(struct|union|enum) [a-z_A-Z0-9]+ \{/) {
        split(substr($0, RSTART, RLENGTH), word, " ")
        here = FILENAME ":" FNR
        if (FILENAME ~ "^agent/core/.*/" word[2] "\\.h$" &&
            FILENAME !~ /\/base\/|\/quorum\/record\.h$/) {
            print here ": struct " word[2] " has to be opaque: define it in " word[2] ".c"
            wrong = 1
        }
        if (word[2] in home) {
            print here ": " word[1] " " word[2] " is also defined at " home[word[2]]
            wrong = 1
        } else {
            home[word[2]] = here
            count++
        }
    }
    END {
        if (count < 200) {
            print "tags.sh: found " count + 0 " definitions, expected 200 at least"
            wrong = 1
        }
        exit wrong
    }' "${files[@]}"
