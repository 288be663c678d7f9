# Prints "FILE INCLUDED" for each #include "..." of the product, both as paths from the root.
# Variable `all`: every file of the product, separated by blanks.
BEGIN {
    count = split(all, names, " ")
    for (i = 1; i <= count; i++) {
        is_there[names[i]] = 1
    }
    roots = split("include/ proto/include/ agent/ agent/core/include/ agent/io/include/", root, " ")
}
/^#include "/ {
    split($0, part, "\"")
    folder = FILENAME
    sub(/[^\/]*$/, "", folder)
    found = ""
    if ((folder part[2]) in is_there) {
        found = folder part[2]
    }
    for (i = 1; i <= roots && found == ""; i++) {
        if ((root[i] part[2]) in is_there) {
            found = root[i] part[2]
        }
    }
    print FILENAME, found == "" ? "?" part[2] : found
}
