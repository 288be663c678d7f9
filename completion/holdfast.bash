# Completion of holdfast(1) for bash. Commands and options come from `holdfast --help`, so they are
# those of the program that is installed; names of locks come from `holdfast ls`.

# Prints the words of the first block of commands.
_holdfast_commands() {
    "$1" --help 2>/dev/null | awk '/^$/ { part++ } part == 1 && /^  holdfast / { print $2 }'
}

# Prints the options of a command, and those of all commands.
_holdfast_options() {
    { "$1" "$2" --help; "$1" --help; } 2>/dev/null |
        grep -oE '^  +(-[a-zA-Z], )?-(-[a-z-]+|[a-zA-Z])' | grep -oE -- '-[-a-zA-Z]+' | sort -u
}

# _holdfast_names PROGRAM ls|member: prints the names of the locks, or of the voters.
_holdfast_names() {
    "$1" "$2" --json 2>/dev/null | grep -oE '"name": *"[^"\\]*"' | sed 's/^"name": *"//; s/"$//'
}

_holdfast() {
    local program=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]}
    local before=${COMP_WORDS[COMP_CWORD - 1]} index command='' action='' word
    for ((index = 1; index < COMP_CWORD; index++)); do
        word=${COMP_WORDS[index]}
        if [[ $word == -- ]]; then
            # What follows is a command of its own.
            if declare -F _comp_command_offset >/dev/null; then
                _comp_command_offset $((index + 1))
            elif declare -F _command_offset >/dev/null; then
                _command_offset $((index + 1))
            else
                mapfile -t COMPREPLY < <(compgen -c -f -- "$current")
            fi
            return
        fi
        case $word in
        -s | --socket) index=$((index + 1)) ;;
        -*) ;;
        *) if [[ -z $command ]]; then command=$word; else action=${action:-$word}; fi ;;
        esac
    done
    case $before in
    -s | --socket | --config | --output | --from | --certificates | --state-dir)
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
        ;;
    esac
    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < \
            <(compgen -W "$(_holdfast_options "$program" "$command")" -- "$current")
    elif [[ -z $command ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_holdfast_commands "$program")" -- "$current")
    else
        case $command/$action in
        member/)
            mapfile -t COMPREPLY < \
                <(compgen -W 'list add remove replace move backup rejoin' -- "$current")
            ;;
        member/remove | member/replace | member/move)
            mapfile -t COMPREPLY < \
                <(compgen -W "$(_holdfast_names "$program" member)" -- "$current")
            ;;
        member/backup) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
        lock/* | hold/* | ls/* | show/* | watch/* | top/* | break/*)
            mapfile -t COMPREPLY < <(compgen -W "$(_holdfast_names "$program" ls)" -- "$current")
            ;;
        esac
    fi
}
complete -F _holdfast holdfast
