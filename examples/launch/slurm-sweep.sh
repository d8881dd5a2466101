#!/bin/bash
# gradlab launch slurm digits.yaml net=sim codec=raw,bf16 --repeats 2 --shares 2 --name digits-sweep
# A sweep of 4 runs, in 2 shares.
#SBATCH --job-name=digits-sweep
#SBATCH --array=1-2
#SBATCH --ntasks=1
#SBATCH --output=%x-%A_%a.log
# A job that is started again goes on in its log.
#SBATCH --open-mode=append
# So many seconds before its time is up it is told to stop: it keeps what there is.
#SBATCH --signal=USR1@120
#SBATCH --requeue

srun gradlab sweep digits.yaml net=sim codec=raw,bf16 --repeats=2 --shard auto/2 \
  --out runs
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
