// Package jobs has the tests of gradlab on several hosts, and of the jobs that gradlab
// launch writes: Slurm, Open MPI and Kubernetes.
package jobs
