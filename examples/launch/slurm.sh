#!/bin/bash
# gradlab launch slurm digits.yaml --nodes 2 --cpus 2 --sbatch time=00:10:00
# 3 workers and 1 server, a process each. That of rank 0 observes too: it evaluates and records.
#SBATCH --job-name=digits
#SBATCH --ntasks=4
#SBATCH --nodes=2
#SBATCH --cpus-per-task=2
#SBATCH --output=%x-%j.log
# A job that is started again goes on in its log.
#SBATCH --open-mode=append
# So many seconds before its time is up it is told to stop: it keeps what there is.
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --time=00:10:00

# The run's secret, new for each start. Tasks have it from their environment.
GRADLAB_TOKEN=$(head -c 32 /dev/urandom | base64)
export GRADLAB_TOKEN

# Since 22.05 srun takes no cores of a task over from the job.
export SRUN_CPUS_PER_TASK=2

srun gradlab join digits.yaml --out runs --resume --timeout 10m
code=$?

# 75: its time was up, or a rank was lost. 137: a process was killed. What is kept is
# gone on with.
case $code in
75 | 137)
  if [ "${SLURM_RESTART_COUNT:-0}" -lt 10 ]; then
    scontrol requeue "$SLURM_JOB_ID"
    exit
  fi
  ;;
esac
exit $code
