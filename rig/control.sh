# shellcheck shell=bash
# Runs in a guest that was booted with CONTROL=SOCKET, and takes commands from there until it is
# told to stop. Each is one line, the base64 of a bash script, which runs in a shell of its own; the
# answer is one line, its exit status and the base64 of what it printed. The first line sent is
# "ready". An empty line ends the guest's job, and with it the guest.
#
#   CONTROL=SOCKET boot.sh CACHE 'source $RIG/control.sh'

port=/dev/ttyS1
exec 7<>"$port"
busybox stty -F "$port" raw -echo 115200
echo ready >&7
while read -r line <&7 && [[ -n $line ]]; do
    answer=$(bash -c "$(base64 -d <<<"$line")" 7<&- </dev/null 2>&1 | base64 -w 0
        exit "${PIPESTATUS[0]}")
    echo "$? $answer" >&7
done
exec 7<&-
