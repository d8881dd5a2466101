#!/bin/bash
# {{comment .Line}}
# {{.Who}}
#SBATCH --job-name={{.Name}}
{{- if .Shares}}
#SBATCH --array=1-{{.Shares}}
#SBATCH --ntasks=1
{{- else}}
#SBATCH --ntasks={{.Ranks}}
{{- if .Nodes}}
#SBATCH --nodes={{.Nodes}}
{{- end}}
{{- end}}
{{- if .CPUs}}
#SBATCH --cpus-per-task={{.CPUs}}
{{- end}}
#SBATCH --output=%x-{{if .Shares}}%A_%a{{else}}%j{{end}}.log
# A job that is started again goes on in its log.
#SBATCH --open-mode=append
# So many seconds before its time is up it is told to stop: it keeps what there is.
#SBATCH --signal=USR1@{{.Seconds}}
#SBATCH --requeue
{{- range .Options}}
#SBATCH --{{.}}
{{- end}}

{{if not .Shares -}}
# The run's secret, new for each start. Tasks have it from their environment.
GRADLAB_TOKEN=$(head -c 32 /dev/urandom | base64)
export GRADLAB_TOKEN

{{end -}}
{{if .CPUs -}}
# Since 22.05 srun takes no cores of a task over from the job.
export SRUN_CPUS_PER_TASK={{.CPUs}}

{{end -}}
{{line "  " .Command}}
code=$?

# 75: its time was up, or a rank was lost. 137: a process was killed. What is kept is
# gone on with.
case $code in
75 | 137)
  if [ "${SLURM_RESTART_COUNT:-0}" -lt {{.Restarts}} ]; then
    scontrol requeue "$SLURM_JOB_ID"
    exit
  fi
  ;;
esac
exit $code
