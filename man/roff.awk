# What the other scripts of this folder share: writing text as roff.
#
# A page is made of blocks. Each function below writes one block, so that every page has the same
# shape, whatever it is made from.

# Escapes a line of text. A hyphen becomes a minus, so that options can be copied from the page.
function roff(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    gsub(/\001/, "\\-", text) # the dash of NAME
    gsub(/'/, "\\(aq", text)
    gsub(/`/, "\\(ga", text)
    gsub(/~/, "\\(ti", text)
    gsub(/\^/, "\\(ha", text)
    gsub(/…/, "...", text)
    gsub(/→/, "->", text)
    if (text ~ /^\./) {
        text = "\\&" text
    }
    return text
}

# Writes text in lines of fewer than 80 bytes, as mandoc wants them.
function fill(text, words, count, at, line) {
    count = split(roff(text), words, " ")
    line = ""
    for (at = 1; at <= count; at++) {
        if (line != "" && length(line) + 1 + length(words[at]) > 78) {
            print line
            line = ""
        }
        if (line == "" && words[at] ~ /^\./) {
            words[at] = "\\&" words[at]
        }
        line = line (line == "" ? "" : " ") words[at]
    }
    print line == "" ? "\\ " : line
}

# Writes the first lines of a page. `brief` is the line of NAME behind the dash. A page of several
# functions has all of them in NAME, separated by commas, and the first in its title.
function page(name, section, brief, title) {
    title = name
    sub(/,.*/, "", title)
    printf ".\\\" Made from the source by man/make.sh: change that, not this.\n"
    printf ".TH %s %s %s \"Holdfast %s\"\n", toupper(roff(title)), section, date, version
    heading("NAME")
    fill(name " \001 " brief)
}

# A heading in brackets is a section of a file, and keeps its letters.
function heading(text) {
    printf ".SH %s\n", roff(text ~ /^\[/ ? text : toupper(text))
    after_heading = 1
}

function subheading(text) {
    printf ".SS %s\n", roff(text)
    after_heading = 1
}

# The blank before a block: none right below a heading.
function gap() {
    if (!after_heading) {
        print ".PP"
    }
    after_heading = 0
}

function paragraph(text) {
    gap()
    fill(text)
}

# A term with what it means, such as an option.
function item(term, text) {
    after_heading = 0
    printf ".TP\n\\fB%s\\fR\n", roff(term)
    fill(text)
}

function verbatim_begin() {
    gap()
    print ".nf"
    print ".RS 2"
    verbatim_lines = 0
}

# Blank lines are kept between lines, but not at the end.
function verbatim(line) {
    if (line ~ /^ *$/) {
        verbatim_blank = verbatim_lines > 0
        return
    }
    if (verbatim_blank) {
        print ".sp"
    }
    verbatim_blank = 0
    verbatim_lines++
    print "\\&" roff(line)
}

function verbatim_end() {
    print ".RE"
    print ".fi"
    verbatim_blank = 0
}

# SEE ALSO: "holdfast(1) holdfast(7)" becomes a list with commas, without the page itself.
function see_also(pages, self, words, count, index_, line) {
    heading("See also")
    count = split(pages, words, " ")
    for (index_ = 1; index_ <= count; index_++) {
        if (words[index_] != self) {
            line = words[index_]
            sub(/\(/, "\\fR(", line)
            sub(/^/, "\\fB", line)
            gsub(/-/, "\\-", line)
            if (shown++) {
                printf ",\n"
            }
            printf "%s", line
        }
    }
    printf "\n"
}

function trim(text) {
    sub(/^ +/, "", text)
    sub(/ +$/, "", text)
    return text
}
