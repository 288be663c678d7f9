# Completion of holdfast(1) for fish. Commands and options come from `holdfast --help`, so they are
# those of the program that is installed; names of locks come from `holdfast ls`.

function __holdfast_command
    for word in (commandline -opc)[2..-1]
        if not string match -q -- '-*' $word
            echo $word
            return 0
        end
    end
    return 1
end

function __holdfast_commands
    holdfast --help 2>/dev/null | awk '/^$/ { part++ }
        part == 1 && /^  holdfast / { text = $0; sub(/^  .*[^ ]   +/, "", text)
                                      print $2 "\t" text }'
end

function __holdfast_options
    begin
        holdfast (__holdfast_command) --help
        holdfast --help
    end 2>/dev/null | sed -nE 's/^  +(-[a-zA-Z], )?(-(-[a-z-]+|[a-zA-Z]))( [A-Z]+)?   *(.*)/\2\t\5/p' |
        sort -u
end

function __holdfast_names
    holdfast ls --json 2>/dev/null | grep -oE '"name": *"[^"\\\\]*"' |
        sed 's/^"name": *"//; s/"$//'
end

function __holdfast_wants_name
    not contains -- -- (commandline -opc)
    and contains -- (__holdfast_command) lock ls show watch top break
end

function __holdfast_wants_change
    not contains -- -- (commandline -opc)
    and contains -- (__holdfast_command) member
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
complete -c holdfast -n __holdfast_wants_name -a '(__holdfast_names)'
complete -c holdfast -n __holdfast_wants_change -a 'list add remove replace move backup rejoin'
complete -c holdfast -n __holdfast_behind_dashes -f -a '(__holdfast_behind)'
