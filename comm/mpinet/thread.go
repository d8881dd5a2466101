//go:build mpi

package mpinet

/*
#include <mpi.h>
#include <stdlib.h>

static int start(int *rank, int *size, int *local) {
	int got;
	int err = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &got);
	if (err != MPI_SUCCESS) return err;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm host;
	if ((err = MPI_Comm_rank(MPI_COMM_WORLD, rank)) != MPI_SUCCESS ||
	    (err = MPI_Comm_size(MPI_COMM_WORLD, size)) != MPI_SUCCESS ||
	    (err = MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host)) != MPI_SUCCESS ||
	    (err = MPI_Comm_size(host, local)) != MPI_SUCCESS)
		return err;
	return MPI_Comm_free(&host);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

// Built says whether this program was built with MPI.
const Built = true

// thread is the one that makes all MPI calls of this process.
var thread struct {
	once  sync.Once
	do    chan func()
	world World
	err   error
	used  sync.Mutex // held by the net that runs
	left  bool       // a run ended with calls under way: nothing can be done any more
	last  bool       // the last run ended in order, and no other was to follow
}

// Start initialises MPI, once, and says which process of the job this is. It waits for
// the others: MPI does.
func Start() (World, error) {
	thread.once.Do(func() {
		thread.do = make(chan func())
		begun := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			thread.world, thread.err = initialise()
			close(begun)
			for f := range thread.do {
				f()
			}
		}()
		<-begun
	})
	return thread.world, thread.err
}

func initialise() (w World, err error) {
	var rank, size, local C.int
	if err := check("MPI_Init_thread", C.start(&rank, &size, &local)); err != nil {
		return w, err
	}
	name := make([]byte, C.MPI_MAX_LIBRARY_VERSION_STRING)
	var n C.int
	C.MPI_Get_library_version((*C.char)(unsafe.Pointer(&name[0])), &n)
	library, _, _ := strings.Cut(string(name[:n]), ",")
	return World{Rank: int(rank), Size: int(size), Local: int(local), Library: strings.TrimRight(library, "\x00\n")}, nil
}

// End finalises MPI, which waits for all processes, so that none is ended before it has
// said its last, whatever its exit code. It does so only where all others will come: where
// the last run ended in order. Elsewhere the process is to end without, and mpirun then
// ends the others.
func End() {
	if thread.do == nil || thread.err != nil || !thread.used.TryLock() {
		return
	}
	defer thread.used.Unlock()
	if thread.left || !thread.last {
		return
	}
	onThread(func() { C.MPI_Finalize() })
	thread.left = true
}

// onThread runs f on MPI's thread.
func onThread(f func()) {
	done := make(chan struct{})
	thread.do <- func() { defer close(done); f() }
	<-done
}

var errLeft = errors.New("mpinet: an earlier run was left with messages under way, or MPI has ended")

// check makes an error of what an MPI call returns.
func check(call string, code C.int) error {
	if code == C.MPI_SUCCESS {
		return nil
	}
	text := make([]byte, C.MPI_MAX_ERROR_STRING)
	var n C.int
	C.MPI_Error_string(code, (*C.char)(unsafe.Pointer(&text[0])), &n)
	return fmt.Errorf("mpinet: %s: %s", call, text[:n])
}
