"""The scripts by which shells ask `laneway` for completions.

They differ from those of click in this: bash keeps colons, which addresses have; zsh and bash add
no space after `pcidevice/`, where a name follows; `--mode=MIG` is completed as `--mode MIG` is;
fish keeps commas of descriptions; and the command is asked as it was typed, wherever it is. click
writes what they read: a line for each completion, in zsh three.
"""

from __future__ import annotations

_BASH = r"""# bash completion of laneway. Load it with: source <(laneway completion bash)
_laneway_completion() {
    local line="${COMP_LINE:0:COMP_POINT}" words=() current prefix="" entry kind value
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current="${words[${#words[@]}-1]}"
    # Bash ends words at colons, which addresses of devices have.
    if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
        prefix="${current%"${current##*:}"}"
    fi
    COMPREPLY=()
    while IFS= read -r entry; do
        kind="${entry%%,*}"
        value="${entry#*,}"
        case "$kind" in
            dir) compopt -o dirnames 2> /dev/null ;;
            file) compopt -o default 2> /dev/null ;;
            plain)
                COMPREPLY+=("${value#"$prefix"}")
                [[ $value == */ ]] && compopt -o nospace 2> /dev/null
                ;;
        esac
    done < <(COMP_WORDS="$line" COMP_CWORD=$((${#words[@]} - 1)) _LANEWAY_COMPLETE=bash_complete \
        "${words[0]}" 2> /dev/null)
    return 0
}
complete -o nosort -F _laneway_completion laneway
"""

_ZSH = r"""#compdef laneway
# zsh completion of laneway. Load it with: source <(laneway completion zsh)
_laneway() {
    local -a response described plain open
    local kind value about option=""
    [[ ${words[CURRENT]} == --*=* ]] && option="${words[CURRENT]%%=*}="
    response=("${(@f)$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) \
        _LANEWAY_COMPLETE=zsh_complete "${words[1]}" 2> /dev/null)}")
    for kind value about in "${response[@]}"; do
        case "$kind" in
            dir) _path_files -/ ;;
            file) _path_files -f ;;
            plain)
                value="$option$value"
                if [[ $about != _ ]]; then
                    described+=("$value:$about")
                elif [[ $value == */ ]]; then
                    open+=("$value")
                else
                    plain+=("$value")
                fi
                ;;
        esac
    done
    (( $#described )) && _describe -V unsorted described -U
    (( $#open )) && compadd -U -V unsorted -S '' -a open
    (( $#plain )) && compadd -U -V unsorted -a plain
}
if [[ $funcstack[1] == _laneway ]]; then
    _laneway "$@"  # zsh has just loaded this file to complete
else
    compdef _laneway laneway
fi
"""

_FISH = r"""# fish completion of laneway. Load it with: laneway completion fish | source
function _laneway_completion
    set -l words (commandline -opc)
    set -l line (commandline -cp | string collect)
    set -l current (commandline -ct)
    set -l option (string match -r -- '^--[^=]+=' "$current")
    set -l response (env _LANEWAY_COMPLETE=fish_complete COMP_WORDS="$line" COMP_CWORD="$current" \
        $words[1] 2> /dev/null)
    for entry in $response
        set -l found (string split -m 1 , -- $entry)
        switch $found[1]
            case dir
                __fish_complete_directories $found[2]
            case file
                __fish_complete_path $found[2]
            case plain
                echo "$option$found[2]"
        end
    end
end
complete --keep-order --no-files --command laneway --arguments '(_laneway_completion)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
"""By shell."""
