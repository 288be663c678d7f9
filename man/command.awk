# Makes the man page of a command from the command's help text (standard input). Variables: name,
# section, brief, see, version, date.
#
# The help texts have one layout:
#   - the synopsis, to the first blank line. The help text of a program with commands has a line
#     before the synopsis that says what the program is;
#   - paragraphs;
#   - lists: two blanks, a term, two blanks or more, its meaning; further lines stand below the
#     meaning, or below the term if they are indented more;
#   - "Examples:", "Example:" or "Try it:" and lines to be shown as they are;
#   - "Exit status:" and a paragraph or a list.
function flush_text() {
    if (text != "") {
        if (description_due) {
            heading("Description")
            description_due = 0
        }
        if (in_item) {
            item(term, text)
        } else if (text !~ /^ *$/) {
            paragraph(text)
        }
    }
    text = ""
    in_item = 0
}

function leave_verbatim() {
    if (in_verbatim) {
        verbatim_end()
    }
    in_verbatim = 0
}

function begin_heading(title) {
    flush_text()
    leave_verbatim()
    description_due = 0
    heading(title)
}

# Begins a list item. The line has a term, two blanks or more, and the meaning. If the line has only
# the term, the meaning begins in the next line, and `text` becomes " ".
function begin_item(line, at) {
    flush_text()
    line = trim(line)
    at = match(line, /  +/)
    if (at == 0) {
        term = line
        text = " "
    } else {
        term = substr(line, 1, at - 1)
        text = trim(substr(line, at))
    }
    in_item = 1
}

NR == 1 {
    page(name, section, brief)
    heading("Synopsis")
    # The help text of a program with commands begins with a line that says what the program is. The
    # synopses of the commands follow.
    whole = $0 ~ /^[a-z]+: /
    part = whole ? "title" : "synopsis"
    if (!whole) {
        verbatim_begin()
        verbatim($0)
    }
    next
}
part == "title" {
    if (/^$/) {
        verbatim_begin()
        part = "synopsis"
    }
    next
}
# The synopsis of a program with commands may have several parts.
part == "between" && (!whole || index($0, "  " name " ") != 1) {
    verbatim_end()
    description_due = 1
    part = "body"
}
part == "between" {
    verbatim("")
    part = "synopsis"
}
part == "synopsis" {
    if (/^$/) {
        part = "between"
    } else {
        verbatim(whole ? substr($0, 3) : $0)
    }
    next
}
/^(Examples?|Try it):/ {
    begin_heading("Examples")
    verbatim_begin()
    in_verbatim = 1
    next
}
/^Exit status:/ {
    begin_heading("Exit status")
    sub(/^Exit status: */, "")
    text = $0
    next
}
/^Options.*:$/ {
    begin_heading("Options")
    text = $0
    next
}
in_verbatim && (/^ / || /^$/) {
    verbatim(substr($0, 3))
    next
}
/^$/ {
    flush_text()
    next
}
# Two or three blanks come before a term, because the exit statuses of a list are right-aligned.
/^   ?[^ ]/ {
    leave_verbatim()
    begin_item($0)
    next
}
{
    leave_verbatim()
    if (in_item && $0 !~ /^ /) {
        flush_text()
    }
    text = text (text == "" || text == " " ? "" : " ") trim($0)
}
END {
    flush_text()
    leave_verbatim()
    see_also(see, name "(" section ")")
}
