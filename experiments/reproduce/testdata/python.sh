#!/bin/sh
# Stands for python -c SCRIPT TASK: keeps the task, and does what a file beside it says.
printf '%s' "$3" > "$(dirname "$0")/task"
. "$(dirname "$0")/tells"
