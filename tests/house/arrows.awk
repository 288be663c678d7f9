# Compares the #include lines and the declared functions of the product with a part of
# tests/house/modules (first file), or draws that part as SVG. The other files are the sources.
#
# Variables: `room` is the name of the part, which stands in [ ] above it ("": the first part).
# `files` has the names of all sources, separated by blanks. If `draw` is 1, the script draws
# instead of comparing.
BEGIN {
    count = split(files, list, " ")
    for (i = 1; i <= count; i++) {
        is_file[list[i]] = 1
    }
    roots = split("include/ text/include/ proto/include/ agent/ agent/core/include/ agent/io/include/", root, " ")
}

function complain(text) {
    if (!draw) {
        print text
        wrong = 1
    }
}

# Returns the module of a file, or "" if it belongs to none.
function module_of(file, at, best, length_best) {
    best = ""
    length_best = 0
    for (at in owner) {
        if (index(file, at) == 1 && length(at) > length_best) {
            best = owner[at]
            length_best = length(at)
        }
    }
    return best
}

# Returns the file that an #include in `from` means, or "" if it is not a file of the product.
function resolve(from, name, folder, i) {
    folder = from
    sub(/[^\/]*$/, "", folder)
    if ((folder name) in is_file) {
        return folder name
    }
    for (i = 1; i <= roots; i++) {
        if ((root[i] name) in is_file) {
            return root[i] name
        }
    }
    return ""
}

FNR == NR {
    sub(/#.*/, "")
    if ($0 ~ /^\[/) {
        room_here = substr($1, 2, length($1) - 2)
        next
    }
    if (NF == 0 || room_here != room) {
        next
    }
    module[++modules] = $1
    number[$1] = modules
    for (i = 2; i <= NF && $i != ":"; i++) {
        owner[$i] = $1
    }
    for (i++; i <= NF; i++) {
        if (!($i in number)) {
            complain(FILENAME ":" FNR ": " $1 " may include " $i ", which is named in no line above it")
        }
        allowed[$1, $i] = 1
        below[$1] = below[$1] " " $i
    }
    next
}

FNR == 1 {
    current = module_of(FILENAME)
    if (current == "" && index(FILENAME, room == "" ? "" : "agent/" room "/") == 1) {
        complain(FILENAME ": belongs to no module")
    }
}

/^#include ["<]/ && current != "" {
    split($0, part, "[\"<>]")
    target = resolve(FILENAME, part[2])
    to = target == "" ? "" : module_of(target)
    if (to != "" && to != current) {
        used[current, to] = 1
        if (target ~ /private\.h$/) {
            complain(FILENAME ":" FNR ": " current " may not include " part[2] ", which is private to " to)
        }
        if (!((current, to) in allowed)) {
            complain(FILENAME ":" FNR ": " current " may not include " part[2] ", which is of " to)
        }
    }
}

# ---- functions: a header declares only functions that its own module defines ----

FNR == 1 {
    statement = ""
    declares = FILENAME ~ /\.h$/ && FILENAME !~ /\/reactions\.h$/
    if (FILENAME ~ /\.c$/) {
        has_code[current] = 1
    }
}

# A statement that begins in the first column ends at a ; or at a line that is only {.
current != "" && (statement != "" || /^[a-z_A-Z]/) {
    if (statement == "") {
        statement_line = FNR
    }
    statement = statement " " $0
    if ($0 == "{" || /;/ || /{$/) {
        if (statement ~ /^ [a-z_A-Z0-9 *]+\(/ && statement !~ /^ (static|typedef|extern) /) {
            name = statement
            sub(/\(.*/, "", name)
            sub(/.*[ *]/, "", name)
            if ($0 == "{") {
                defines[name] = defines[name] " " current
            } else if (declares && name != "_Static_assert") {
                where[name, current] = FILENAME ":" statement_line
            }
        }
        statement = ""
    }
}

# A module without a .c file is an interface: other modules define the functions that it declares.
function compare_functions(key, i, n, part, parts, own) {
    for (key in where) {
        split(key, part, SUBSEP)
        n = split(defines[part[1]], parts, " ")
        own = !(part[2] in has_code)
        for (i = 1; i <= n; i++) {
            own = own || parts[i] == part[2]
        }
        if (!own) {
            complain(where[key] ": " part[2] " declares " part[1] "(), which is defined in" (n == 0 ? " no file" : defines[part[1]]))
        }
    }
}

# Returns whether a longer path leads from one module to the other. The drawing leaves out an arrow
# between such modules.
function leads(from, to, i, n, next_one) {
    n = split(below[from], next_one, " ")
    for (i = 1; i <= n; i++) {
        if (next_one[i] == to || reaches[next_one[i], to]) {
            return 1
        }
    }
    return 0
}

function draw_all(i, j, n, parts, level_max, width, x, y, at) {
    for (i = 1; i <= modules; i++) { # those below have smaller numbers
        n = split(below[module[i]], parts, " ")
        for (j = 1; j <= n; j++) {
            if (level[parts[j]] + 1 > level[module[i]]) {
                level[module[i]] = level[parts[j]] + 1
            }
            reaches[module[i], parts[j]] = 1
            for (at = 1; at < i; at++) {
                if (reaches[parts[j], module[at]]) {
                    reaches[module[i], module[at]] = 1
                }
            }
        }
        in_level[level[module[i]]]++
        if (level[module[i]] > level_max) {
            level_max = level[module[i]]
        }
    }
    for (i = 0; i <= level_max; i++) {
        width = in_level[i] > width ? in_level[i] : width
    }
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n", width * 130 + 20, (level_max + 1) * 90 + 10
    print "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
    for (i = 1; i <= modules; i++) {
        at = level[module[i]]
        x[i] = 10 + (width - in_level[at]) * 65 + 130 * placed[at]++
        y[i] = 20 + (level_max - at) * 90
    }
    for (i = 1; i <= modules; i++) {
        n = split(below[module[i]], parts, " ")
        for (j = 1; j <= n; j++) {
            shortcut = 0
            for (at = 1; at <= n; at++) {
                shortcut = shortcut || reaches[parts[at], parts[j]]
            }
            if (!shortcut) {
                printf "<path d=\"M%d %d L%d %d\" stroke=\"#888\" fill=\"none\"/>\n", x[i] + 60, y[i] + 30, x[number[parts[j]]] + 60, y[number[parts[j]]]
            }
        }
    }
    for (i = 1; i <= modules; i++) {
        printf "<g><title>%s may include:%s</title><rect x=\"%d\" y=\"%d\" width=\"120\" height=\"30\" rx=\"4\" fill=\"#eef3fa\" stroke=\"#4a6fa5\"/>", module[i], below[module[i]] == "" ? " none" : below[module[i]], x[i], y[i]
        printf "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text></g>\n", x[i] + 60, y[i] + 19, module[i]
    }
    print "</svg>"
}

END {
    if (draw) {
        draw_all()
        exit 0
    }
    compare_functions()
    for (i = 1; i <= modules; i++) {
        n = split(below[module[i]], parts, " ")
        for (j = 1; j <= n; j++) {
            if (!((module[i], parts[j]) in used)) {
                complain("tests/house/modules: " module[i] " includes nothing of " parts[j] " any more")
            }
        }
    }
    exit wrong
}
