// Package mpi has the tests of gradlab under mpirun: jobs that gradlab launch mpi writes, and
// frames that MPI carries (net=mpi).
package mpi
