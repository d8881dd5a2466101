// Package jobs has the tests of gradlab on several hosts, and of the jobs that gradlab
// launch writes: Slurm and Kubernetes. Those of Open MPI are in package mpi beside it.
package jobs
