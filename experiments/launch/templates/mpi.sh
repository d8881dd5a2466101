#!/bin/bash
# {{comment .Line}}
# {{.Who}}

{{if not .Carries}}# The run's secret. Ranks have it from their environment.
GRADLAB_TOKEN=$(head -c 32 /dev/urandom | base64)
export GRADLAB_TOKEN

{{end -}}
# mpirun passes on SIGUSR1 alone: at SIGTERM it ends the ranks before they have kept
# anything. So that is how a stop is told; a second one ends everything.
stopped=
stop() {
  if [ -z "$stopped" ]; then kill -USR1 $ranks; else kill -TERM $ranks; fi
  stopped=$1
}
trap 'stop 143' TERM INT
trap 'stop 75' USR1

for ((start = 0; start <= {{.Restarts}}; start++)); do
  {{line "    " .Command}} &
  ranks=$!
  wait $ranks
  code=$?
  while kill -0 $ranks 2>/dev/null; do # it was a signal that ended the wait
    wait $ranks
    code=$?
  done
  # 75: a rank was lost. 137: it was killed. What is kept is gone on with.
  [ -z "$stopped" ] && [[ $code =~ ^(75|137)$ ]] || break
done
exit ${stopped:-$code}
