// Package hosts makes hosts for tests, joined by a switch, each with a network, a name and
// processes of its own, and starts jobs on them (experiments/cli/jobs and mpi).
package hosts
