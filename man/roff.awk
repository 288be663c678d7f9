# The functions with which the other scripts of this folder write text as roff.
#
# A page is made of blocks: headings, paragraphs, items, and lines that are shown as they are. There
# is one function for each kind of block, so that all pages have the same shape.

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

# Writes the first lines of a page. `brief` is the text behind the dash in the section NAME. `name`
# may be several functions, separated by commas; the first of them becomes the page's title.
function page(name, section, brief, title) {
    title = name
    sub(/,.*/, "", title)
    printf ".\\\" Made from the source by man/make.sh: change that, not this.\n"
    printf ".TH %s %s %s \"Holdfast %s\"\n", toupper(roff(title)), section, date, version
    heading("NAME")
    fill(name " \001 " brief)
}

# A heading in brackets names a section of a configuration file, so it is not changed to capitals.
function heading(text) {
    printf ".SH %s\n", roff(text ~ /^\[/ ? text : toupper(text))
    after_heading = 1
}

function subheading(text) {
    printf ".SS %s\n", roff(text)
    after_heading = 1
}

# Separates a block from the one before by a blank line. A heading has none below it.
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

# Writes a term and its meaning, such as an option.
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

# Writes one line as it is. Blank lines are kept between other lines, but not at the end.
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

# Writes the section SEE ALSO: "holdfast(1) holdfast(7)" becomes a list with commas, without the
# page itself.
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
