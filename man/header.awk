# Makes a man page of the C interface from the comments of its headers (the file arguments).
# Variables: version, date, see, and `call`, which selects the output:
#   a function's name    the page of that function
#   "list"               a line for each function: its name, and the name of the function whose
#                        comment it shares
#   "libholdfast"        the page of the library; `example` is the file with a program
#
# The headers have one layout: a comment at the left margin, then the declarations that the comment
# is about, then an empty line. If an empty line follows the first comment of a file, that comment
# is about the file.

# ---- reading

function strip(line) {
    sub(/ *\*\/ *$/, "", line)
    if (line ~ /^\/\*/) {
        sub(/^\/\* ?/, "", line)
    } else {
        sub(/^ \* ?/, "", line)
    }
    return line
}

function add_type(key) {
    types[++type_count] = key
    type_text[key] = raw
}

function end_declaration(name) {
    if (collecting == "function") {
        name = declaration
        sub(/\(.*/, "", name)
        sub(/.*[ *]/, "", name)
        calls[++call_count] = name
        doc[name] = comment
        prototype[name] = declaration
        header[name] = file
        if (first == "") {
            first = name
        }
        same[name] = first
    } else {
        # The comment of a type is shown together with the type, as in the header.
        add_type(type_key)
    }
    collecting = ""
    declaration = ""
}

FNR == 1 {
    file = FILENAME
    sub(/.*\/include\//, "", file)
    comment = ""
    seen_file_comment = 0
}
/clang-format/ { next }
in_comment {
    comment = comment "\n" strip($0)
    raw = raw "\n" $0
    if (/\*\//) {
        in_comment = 0
    }
    next
}
collecting {
    declaration = declaration "\n" $0
    raw = raw "\n" $0
    if (collecting == "function" ? /;$/ : /^};$/) {
        end_declaration()
    }
    next
}
/^\/\*/ {
    comment = strip($0)
    raw = $0
    first = ""
    in_comment = !/\*\//
    next
}
/^$/ {
    if (!seen_file_comment) {
        file_comment[file] = comment
        seen_file_comment = 1
    }
    comment = ""
    raw = ""
    first = ""
    next
}
/^#ifndef/ && !seen_file_comment {
    file_comment[file] = comment
    seen_file_comment = 1
    comment = ""
    raw = ""
    next
}
/^#define HF_[A-Z_]+_INIT / {
    key = "macro " $2
    raw = $0
    add_type(key)
    raw = ""
    next
}
/^(struct|enum) .*\{/ {
    type_key = $2 == "{" ? "enum of " $0 : $1 " " $2
    raw = raw == "" ? $0 : raw "\n" $0
    if (/};$/ || /}; *\/\*/) {
        add_type(type_key)
        raw = ""
    } else {
        collecting = "type"
        if ($2 == "{") {
            type_key = "enum of " FILENAME FNR
        }
    }
    next
}
/^typedef .*_fn\(.*;$/ {
    key = $0
    sub(/\(.*/, "", key)
    sub(/.* /, "", key)
    raw = raw == "" ? $0 : raw "\n" $0
    add_type(key)
    raw = ""
    next
}
/^(int|void|int64_t|const char)[ *].*hf_[a-z_]+\(/ {
    collecting = "function"
    declaration = $0
    if (/;$/) {
        end_declaration()
    }
    next
}

# ---- writing

# Writes a comment: paragraphs, lists (" - "), and programs (four blanks).
function write_doc(text_, lines, count, at, line, body, point, program) {
    count = split(text_, lines, "\n")
    body = ""
    for (at = 1; at <= count + 1; at++) {
        line = at <= count ? lines[at] : ""
        if (program && line !~ /^    / && line !~ /^$/) {
            verbatim_end()
            program = 0
        }
        if (body != "" && (line ~ /^$/ || line ~ /^ - /)) {
            if (point) {
                item("*", body)
            } else {
                paragraph(body)
            }
            body = ""
            point = 0
        }
        if (line ~ /^    / && body == "") {
            if (!program) {
                verbatim_begin()
            }
            program = 1
            verbatim(substr(line, 5))
        } else if (program) {
            verbatim("")
        } else if (line ~ /^ - /) {
            point = 1
            body = substr(line, 4)
        } else if (line !~ /^$/) {
            body = body (body == "" ? "" : " ") trim(line)
        }
    }
    if (program) {
        verbatim_end()
    }
}

function brief(text_) {
    gsub(/\n/, " ", text_)
    text_ = trim(text_)
    sub(/[.:] .*/, "", text_)
    sub(/\.$/, "", text_)
    return tolower(substr(text_, 1, 1)) substr(text_, 2)
}

function write_code(code, lines, count, at) {
    verbatim_begin()
    count = split(code, lines, "\n")
    for (at = 1; at <= count; at++) {
        verbatim(lines[at])
    }
    verbatim_end()
}

# Returns whether the text contains the word.
function mentions(text_, word) {
    return match(" " text_ " ", "[^A-Za-z0-9_]" word "[^A-Za-z0-9_]") > 0
}

# Returns a regular expression that matches the constants of an enum without a name.
function constants(code, out) {
    gsub(/\/\*([^*]|\*[^\/])*\*\//, "", code)
    while (match(code, /HF_[A-Z_]+/)) {
        out = out (out == "" ? "" : "|") substr(code, RSTART, RLENGTH)
        code = substr(code, RSTART + RLENGTH)
    }
    return "(" out ")"
}

function wanted_by(text_, key, name) {
    if (key == "enum hf_error") {
        return 0
    }
    if (key ~ /^enum of/) {
        return mentions(text_, constants(type_text[key]))
    }
    name = key
    sub(/^macro /, "", name)
    # A page has a macro that initialises a struct if its text mentions the struct.
    if (name == "HF_OPTIONS_INIT") {
        return mentions(text_, "struct hf_options")
    }
    if (name == "HF_LOCK_OPTIONS_INIT") {
        return mentions(text_, "struct hf_lock_options")
    }
    return mentions(text_, name)
}

# Writes the types that the text mentions, and the types that those types mention.
function write_types(text_, at, again, used, any) {
    do {
        again = 0
        for (at = 1; at <= type_count; at++) {
            if (!used[at] && wanted_by(text_, types[at])) {
                used[at] = 1
                again = any = 1
                text_ = text_ "\n" type_text[types[at]]
            }
        }
    } while (again)
    if (any) {
        heading("Types")
        for (at = 1; at <= type_count; at++) {
            if (used[at]) {
                write_code(type_text[types[at]])
            }
        }
    }
}

# Writes the error codes that the text mentions, or all of them for "". Each one comes with its
# comment in enum hf_error, which stands in the line of the code or above it.
function write_errors(text_, lines, count, at, code, words, above, any) {
    if (match(text_, /rrors as hf_[a-z_]+/)) {
        code = substr(text_, RSTART + 9, RLENGTH - 9)
        text_ = text_ " " doc[code]
        if (match(doc[code], /rrors as hf_[a-z_]+/)) {
            text_ = text_ " " doc[substr(doc[code], RSTART + 9, RLENGTH - 9)]
        }
    }
    count = split(type_text["enum hf_error"], lines, "\n")
    for (at = 1; at <= count; at++) {
        code = lines[at]
        if (code !~ /^ +HF_E/) {
            above = sub(/^ +(\/\*|\*) */, "", code) ? above (above == "" ? "" : " ") code : ""
            continue
        }
        words = code ~ /\/\*/ ? code : above
        above = ""
        sub(/^ +/, "", code)
        sub(/ .*/, "", code)
        sub(/.*\/\* */, "", words)
        sub(/ *\*\/.*/, "", words)
        if (text_ == "" || mentions(text_, code)) {
            if (!any) {
                heading("Errors")
                any = 1
            }
            item(code, words)
        }
    }
}

# Returns the pages of the other calls that the text mentions, such as "hf_cancel(3) hf_open(3) ".
function mentioned_calls(text_, name, at, pages) {
    for (at = 1; at <= call_count; at++) {
        if (same[calls[at]] != name && mentions(text_, calls[at])) {
            pages = pages calls[at] "(3) "
        }
    }
    return pages
}

function write_call(name, at, all, protos) {
    for (at = 1; at <= call_count; at++) {
        if (same[calls[at]] == name) {
            all = all (all == "" ? "" : ", ") calls[at]
            protos = protos (protos == "" ? "" : "\n") prototype[calls[at]]
        }
    }
    page(all, 3, brief(doc[name]))
    heading("Synopsis")
    write_code("#include <" header[name] ">\n \n" protos)
    heading("Description")
    write_doc(doc[name])
    write_errors(doc[name] " ")
    write_types(protos "\n" doc[name])
    see_also(mentioned_calls(doc[name], name) see, name "(3)")
}

function write_library(at, name, line) {
    page("libholdfast", 3, "take named locks from a C program")
    heading("Synopsis")
    write_code("#include <holdfast/holdfast.h>\n#include <holdfast/admin.h>\n \n" \
        "cc program.c $(pkg-config --cflags --libs holdfast)")
    heading("Description")
    write_doc(file_comment["holdfast/holdfast.h"])
    subheading("holdfast/admin.h")
    write_doc(file_comment["holdfast/admin.h"])
    heading("Calls")
    for (at = 1; at <= call_count; at++) {
        name = calls[at]
        item(name "(3)", brief(doc[name]) ".")
    }
    write_errors("")
    heading("Example")
    verbatim_begin()
    while ((getline line < example) > 0) {
        verbatim(line)
    }
    verbatim_end()
    see_also(see, "libholdfast(3)")
}

END {
    if (call == "list") {
        for (at = 1; at <= call_count; at++) {
            print calls[at], same[calls[at]]
        }
    } else if (call == "libholdfast") {
        write_library()
    } else {
        write_call(call)
    }
}
