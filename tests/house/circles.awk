# Finds the files of agent/core that call each other in a circle. See circles.sh.
#
# awk reads all sources twice: first it finds the functions that each file defines, then the calls.
# A call is a name followed by "(" in an indented line, outside of comments and strings. A call of a
# reaction_ function does not count, because such calls may go up (core/quorum/reactions.h).
#
# Variables: `pairs`, the file that lists the pairs of files that may call each other; `lists`, the
# headers whose first comment lists files of their folder, each of which calls only those below it.
BEGIN {
    header_count = split(lists, header, " ")
    for (i = 1; i <= header_count; i++) {
        folder = header[i]
        sub(/[^\/]*$/, "", folder)
        listed_count = 0
        while ((getline line < header[i]) > 0 && line !~ /\*\//) {
            if (line ~ /^ \*   [a-z_]+\.c  /) {
                split(line, word, " ")
                rank[folder word[2]] = ++listed_count
                list_of[folder word[2]] = header[i]
            }
        }
        if (listed_count < 2) {
            print header[i] ": lists " listed_count " files, expected 2 at least"
            wrong = 1
        }
    }
    while ((getline line < pairs) > 0) {
        sub(/#.*/, "", line)
        if (split(line, pair, " ") == 2) {
            listed[++pair_count] = pair[1] " " pair[2]
            # pairs that share a file are one circle
            together = pair[1] in whole ? whole[pair[1]] : \
                       pair[2] in whole ? whole[pair[2]] : listed[pair_count]
            whole[pair[1]] = whole[pair[2]] = together
        }
    }
}

FNR == 1 {
    second = FILENAME in begun
    begun[FILENAME] = 1
    statement = ""
    in_comment = 0
}

# Removes comments and strings from the line.
{
    line = $0
    if (in_comment) {
        if (line !~ /\*\//) {
            next
        }
        sub(/.*\*\//, "", line)
        in_comment = 0
    }
    gsub(/"([^"\\]|\\.)*"/, "", line)
    gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", line)
    if (line ~ /\/\*/) {
        sub(/\/\*.*/, "", line)
        in_comment = 1
    }
}

# A statement that begins in the first column is a definition if it ends at a line that is only {.
!second && (statement != "" || line ~ /^[a-z_A-Z]/) {
    statement = statement " " line
    if (line == "{" && statement ~ /^ [a-z_A-Z0-9 *]+\(/) {
        name = statement
        sub(/\(.*/, "", name)
        sub(/.*[ *]/, "", name)
        if (statement ~ /^ static /) {
            own[FILENAME, name] = 1
        } else {
            home[name] = FILENAME
        }
    }
    if (line == "{" || line ~ /;/ || line ~ /{$/) {
        statement = ""
    }
}

function note_call(from, name, to) {
    to = home[name]
    if (to == from) {
        return
    }
    calls[from, to] = name
    if (from in rank && list_of[from] == list_of[to] && rank[to] < rank[from]) {
        print list_of[from] ": " from " calls " name "() of " to ", which stands above it"
        wrong = 1
    }
    from = from in whole ? whole[from] : from # a listed pair counts as one file here
    to = to in whole ? whole[to] : to
    if (from != to && !((from, to) in example)) {
        example[from, to] = name
        called[from] = called[from] SUBSEP to
    }
}

second && line ~ /^[ \t]/ {
    while (match(line, /[a-z_A-Z][a-z_A-Z0-9]*\(/)) {
        name = substr(line, RSTART, RLENGTH - 1)
        line = substr(line, RSTART + RLENGTH)
        if (name in home && !((FILENAME, name) in own) && name !~ /^reaction_/) {
            note_call(FILENAME, name)
        }
    }
}

# Returns whether a path of calls leads from one file to the other.
function leads(from, to, seen, left, count, i, n, parts) {
    left[count = 1] = from
    while (count > 0) { # each file enters once
        n = split(called[left[count--]], parts, SUBSEP)
        for (i = 2; i <= n; i++) {
            if (parts[i] == to) {
                return 1
            }
            if (!(parts[i] in seen)) {
                seen[parts[i]] = 1
                left[++count] = parts[i]
            }
        }
    }
    return 0
}

END {
    for (key in example) {
        split(key, part, SUBSEP)
        if (leads(part[2], part[1])) {
            print part[1] ": calls " example[key] "() of " part[2] ", from which calls lead back" | "sort"
            wrong = 1
        }
    }
    close("sort")
    for (i = 1; i <= pair_count; i++) {
        split(listed[i], pair, " ")
        if (!((pair[1], pair[2]) in calls) || !((pair[2], pair[1]) in calls)) {
            print pairs ": " pair[1] " and " pair[2] " do not call each other any more"
            wrong = 1
        }
    }
    exit wrong
}
