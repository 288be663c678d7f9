# Completion of holdfast(1) for fish. Commands and options come from `holdfast --help`, so they are
# those of the program that is installed; names of locks come from `holdfast ls`.

# Prints the words before the cursor that are neither options nor values of -s: the command, then
# its words.
function __holdfast_plain
    set -l skip no
    for word in (commandline -opc)[2..-1]
        if test $skip = yes
            set skip no
        else if contains -- $word -s --socket
            set skip yes
        else if not string match -q -- '-*' $word
            echo $word
        end
    end
end

function __holdfast_command
    set -l words (__holdfast_plain)
    test (count $words) -gt 0
    and echo $words[1]
end

function __holdfast_commands
    holdfast --help 2>/dev/null | awk '/^$/ { part++ }
        part == 1 && /^  holdfast / { word = $2; text = $0; sub(/^  .*[^ ]   +/, "", text)
                                      if (text == $0) { getline text; sub(/^ +/, "", text) }
                                      print word "\t" text }'
end

function __holdfast_options
    begin
        holdfast (__holdfast_command) --help
        holdfast --help
    end 2>/dev/null | sed -nE 's/^  +(-[a-zA-Z], )?(-(-[a-z-]+|[a-zA-Z]))( [A-Z]+)?   *(.*)/\2\t\5/p' |
        sort -u
end

# __holdfast_names ls|member: prints the names of the locks, or of the voters.
function __holdfast_names
    holdfast $argv --json 2>/dev/null | grep -oE '"name": *"[^"\\\\]*"' |
        sed 's/^"name": *"//; s/"$//'
end

function __holdfast_wants_name
    not contains -- -- (commandline -opc)
    and contains -- (__holdfast_command) lock hold ls show watch top break
end

# __holdfast_member [WORD...]: whether the words are `member`, or `member` and one of WORD.
function __holdfast_member
    set -l words (__holdfast_plain)
    test "$words[1]" = member
    and if set -q argv[1]
        set -q words[2]
        and contains -- $words[2] $argv
    else
        not set -q words[2]
    end
end

function __holdfast_wants_file
    contains -- (commandline -opc)[-1] -s --socket --config --output --from --certificates \
        --state-dir
end

function __holdfast_behind_dashes
    contains -- -- (commandline -opc)
end

# What follows -- is a command of its own.
function __holdfast_behind
    set -l words (commandline -opc) (commandline -ct)
    set -l at (contains -i -- -- $words)
    complete -C (string join ' ' -- $words[(math $at + 1)..-1])
end

complete -c holdfast -n 'not __holdfast_behind_dashes' -f
complete -c holdfast -n 'not __holdfast_command' -a '(__holdfast_commands)'
complete -c holdfast -n 'not __holdfast_behind_dashes; and string match -q -- "-*" (commandline -ct)' \
    -a '(__holdfast_options)'
complete -c holdfast -n '__holdfast_wants_file' -F
complete -c holdfast -n __holdfast_wants_name -a '(__holdfast_names ls)'
complete -c holdfast -n __holdfast_member -a 'list add remove replace move backup rejoin'
complete -c holdfast -n '__holdfast_member remove replace move' -a '(__holdfast_names member)'
complete -c holdfast -n '__holdfast_member backup' -F
complete -c holdfast -n __holdfast_behind_dashes -f -a '(__holdfast_behind)'
