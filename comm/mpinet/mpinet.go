// Package mpinet runs ranks as the processes of an MPI job, which mpirun or srun has
// started, and moves their frames by MPI's point-to-point calls.
//
// It needs cgo and the build tag mpi: CGO_ENABLED=1 CC=mpicc go build -tags mpi.
// Without the tag there is this page, and every call is ErrWithout.
//
// One thread of a process makes all of its MPI calls, from MPI_Init_thread to
// MPI_Finalize, so that MPI_THREAD_FUNNELED will do, which every library gives. Ranks
// hand it what they send. It waits for nothing: it starts sends and receives and asks
// which have ended. When none has for a while it sleeps, at most RestMost, or until
// there is something to send.
//
// A frame is a message of its header, with the body behind it if that is short. A
// longer body is a second message, straight from where it lies to the buffer that the
// receiver hands on. MPI keeps the order of messages between two processes.
//
// What becomes of a dead process is MPI's decision, not ours: mpirun ends the whole
// job. So there is no run that survives a death, as there is in grpcnet. A rank that
// fails by itself is told to the others, whose programs decide; its process stays until
// theirs have ended.
package mpinet

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gradlab/gradlab/comm"
)

// ErrWithout is what a program without MPI says.
var ErrWithout = errors.New("this program was built without MPI; build it with CGO_ENABLED=1 CC=mpicc go build -tags mpi (Debian: apt-get install libopenmpi-dev openmpi-bin)")

// RestMost is the longest that a process does not look for messages: what a frame to a
// process that had nothing to do for a while may be late by.
const RestMost = 200 * time.Microsecond

// World is what MPI says of this process.
type World struct {
	Rank, Size int    // of processes
	Local      int    // processes on this host, this one too
	Library    string // name and version
}

// Config describes a run between the processes of a job. All give the same, but for
// Identity, which is compared. Ranks is required; a zero value elsewhere stands for the
// default.
type Config struct {
	// Ranks are hosted by process p: Ranks[p]. Each of 0 … n−1 stands there once. The
	// processes behind the last one host none.
	Ranks [][]int
	// Identity is compared field by field before the programs begin.
	Identity []comm.Field
	// Run is the hash of the run's identity, stamped on frames that name no run.
	Run uint64
	// JoinTimeout bounds the wait for all processes. Default 60 s.
	JoinTimeout time.Duration
	// Deadline is the last resort for every wait of a program. Default 10 min.
	Deadline time.Duration
	// QueueBytes bounds what waits to be sent, to all processes together. Default
	// 64 MiB; a single larger frame passes.
	QueueBytes int
	// More says that all processes make another run after this one: who ends before that
	// ends alone, see End.
	More bool
}

// MissingError says that not all processes came in time.
type MissingError struct{ Waited time.Duration }

func (e *MissingError) Error() string {
	return fmt.Sprintf("mpinet: not all processes of the job came within %v", e.Waited)
}

// complete checks c for a job of so many processes, and fills in defaults.
func (c *Config) complete(processes int) error {
	if len(c.Ranks) > processes {
		return fmt.Errorf("mpinet: ranks for %d processes, MPI has started %d", len(c.Ranks), processes)
	}
	all := slices.Concat(c.Ranks...)
	slices.Sort(all)
	for i, r := range all {
		if r != i {
			return fmt.Errorf("mpinet: ranks %v, want each of 0 … %d once", c.Ranks, len(all)-1)
		}
	}
	if len(all) == 0 {
		return errors.New("mpinet: no ranks")
	}
	for _, d := range []struct {
		name string
		v    *time.Duration
		def  time.Duration
	}{{"JoinTimeout", &c.JoinTimeout, time.Minute}, {"Deadline", &c.Deadline, 10 * time.Minute}} {
		if *d.v < 0 {
			return fmt.Errorf("mpinet: %s of %v", d.name, *d.v)
		}
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if c.QueueBytes < 0 {
		return fmt.Errorf("mpinet: QueueBytes is %d", c.QueueBytes)
	}
	if c.QueueBytes == 0 {
		c.QueueBytes = 64 << 20
	}
	return nil
}
