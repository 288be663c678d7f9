# Makes a man page from a page of docs/ or of this folder (standard input). Variables: name,
# section, brief, see, version, date.
#
# The script knows only those parts of Markdown that these pages use: headings, paragraphs, lists,
# tables, fenced and indented blocks, `code`, **strong**, links (their text stays). Each row of a
# table becomes a term with its meaning. The first column is the term. The meaning is the text of
# the other columns; each except the last one follows the title of its column.
function plain(text, before, middle) {
    while (match(text, /\[[^]]*\]\([^)]*\)/)) {
        before = substr(text, 1, RSTART - 1)
        middle = substr(text, RSTART + 1, RLENGTH - 1)
        text = substr(text, RSTART + RLENGTH)
        sub(/\].*/, "", middle)
        text = before middle text
    }
    gsub(/\*\*/, "", text)
    gsub(/`/, "", text)
    return text
}

function flush_text() {
    if (text != "") {
        if (kind == "point") {
            item("*", plain(text))
        } else if (kind == "number") {
            item(term, plain(text))
        } else {
            paragraph(plain(text))
        }
    }
    text = ""
    kind = ""
}

function table_row(line, cells, count, column, meaning) {
    gsub(/\\\|/, "\001", line)
    sub(/^\| */, "", line)
    sub(/ *\|$/, "", line)
    count = split(line, cells, / *\| */)
    if (line ~ /^[-| ]+$/) {
        return
    }
    if (!table) {
        table = 1
        for (column = 1; column <= count; column++) {
            title[column] = cells[column]
        }
        return
    }
    meaning = ""
    for (column = 2; column < count; column++) {
        meaning = meaning title[column] ": " cells[column] ". "
    }
    meaning = meaning cells[count]
    gsub(/\001/, "|", meaning)
    item(plain(cells[1]), plain(meaning) (meaning ~ /[.!?:)]$/ ? "" : "."))
}

NR == 1 {
    page(name, section, brief)
    heading("Description")
    next
}
/^```/ {
    flush_text()
    if (fence) {
        verbatim_end()
    } else {
        verbatim_begin()
    }
    fence = !fence
    next
}
fence {
    verbatim($0)
    next
}
/^    / && text == "" {
    if (!indented) {
        verbatim_begin()
    }
    indented = 1
    verbatim(substr($0, 5))
    next
}
indented {
    verbatim_end()
    indented = 0
}
/^\|/ {
    flush_text()
    table_row($0)
    next
}
{ table = 0 }
/^$/ {
    flush_text()
    next
}
/^## / {
    flush_text()
    heading(plain(substr($0, 4)))
    next
}
/^### / {
    flush_text()
    subheading(plain(substr($0, 5)))
    next
}
/^(- |\* )/ {
    flush_text()
    kind = "point"
    text = substr($0, 3)
    next
}
/^[0-9]+\. / {
    flush_text()
    kind = "number"
    term = $1
    text = substr($0, length($1) + 2)
    next
}
{ text = text (text == "" ? "" : " ") trim($0) }
END {
    flush_text()
    if (indented) {
        verbatim_end()
    }
    see_also(see, name "(" section ")")
}
