# Prints the help texts of C sources as the programs print them: each string constant named `help`
# or `..._help`, after a line "@ NAME". The test packaging_man compares them with the output of the
# programs.
/^static const char ([a-z_]*_)?help\[\] =$/ {
    name = $4
    sub(/\[.*/, "", name)
    print "@ " name
    inside = 1
    next
}
inside {
    last = /;$/
    line = $0
    sub(/^ *"/, "", line)
    sub(/"[;]?$/, "", line)
    gsub(/\\"/, "\"", line)
    newline = sub(/\\n$/, "", line)
    gsub(/\\\\/, "\\", line)
    printf "%s%s", line, newline ? "\n" : ""
    if (last) {
        inside = 0
    }
}
