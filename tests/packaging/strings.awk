# Prints one line for each string in C sources: FILE, a tab, and the text. Adjacent literals are one
# string. A conversion (%s and the like) becomes "...". Backquotes, and blanks at the ends, are left
# out. The texts of static assertions and of HF_CHECK() are not printed: no user meets the former,
# and the latter are logged as the condition (event=bug).
function flush() {
    if (have && !asserted) {
        gsub(/%%/, "\001", text)
        gsub(/%[-+#]?[0-9.*]*(ll|l|z|h|hh|j|t)?[a-zA-Z]/, "...", text)
        gsub("\001", "%", text)
        gsub(/\\n/, " ", text)
        gsub(/\\"/, "\"", text)
        gsub(/`/, "", text)
        gsub(/^ +| +$/, "", text)
        print file "\t" text
    }
    have = 0
    text = ""
}
function skip(count) { rest = substr(rest, count + 1) }
FNR == 1 { flush(); comment = 0; asserted = 0; file = FILENAME }
/^[ \t]*#[ \t]*include/ && !comment { next }
{
    rest = $0
    while (rest != "") {
        if (comment) {
            end = index(rest, "*/")
            if (!end) break
            skip(end + 1)
            comment = 0
        } else if (match(rest, /^[ \t\\]+/)) {
            skip(RLENGTH)
        } else if (substr(rest, 1, 2) == "/*") {
            comment = 1
            skip(2)
        } else if (substr(rest, 1, 2) == "//") {
            break
        } else if (match(rest, /^'(\\.[0-9a-f]*|[^'\\])'/)) {
            flush()
            skip(RLENGTH)
        } else if (match(rest, /^"([^"\\]|\\.)*"/)) {
            text = text substr(rest, 2, RLENGTH - 2)
            have = 1
            skip(RLENGTH)
        } else if (have && match(rest, /^(PRI|SCN)[a-zA-Z0-9]+/)) {
            text = text "d"
            skip(RLENGTH)
        } else {
            flush()
            if (match(rest, /^[A-Za-z_0-9]+/)) {
                word = substr(rest, 1, RLENGTH)
                if (word ~ /^(_Static_assert|static_assert|HF_CHECK)$/) asserted = 1
                skip(RLENGTH)
            } else {
                if (substr(rest, 1, 1) == ";") asserted = 0
                skip(1)
            }
        }
    }
}
END { flush() }
