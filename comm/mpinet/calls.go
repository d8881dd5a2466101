//go:build mpi

package mpinet

/*
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static int join(MPI_Comm *c, MPI_Request *r) { return MPI_Comm_idup(MPI_COMM_WORLD, c, r); }

static int send(MPI_Comm c, void *b, int n, int to, int tag, MPI_Request *r) {
	return MPI_Isend(b, n, MPI_BYTE, to, tag, c, r);
}

static int recv(MPI_Comm c, void *b, int n, int from, int tag, MPI_Request *r) {
	return MPI_Irecv(b, n, MPI_BYTE, from < 0 ? MPI_ANY_SOURCE : from, tag, c, r);
}

static int fold(MPI_Comm c, void *b, int n, int how, MPI_Request *r) {
	MPI_Datatype of[] = {MPI_UINT64_T, MPI_FLOAT, MPI_FLOAT, MPI_INT8_T, MPI_INT16_T};
	MPI_Op by[] = {MPI_BOR, MPI_SUM, MPI_MAX, MPI_SUM, MPI_SUM};
	return MPI_Iallreduce(MPI_IN_PLACE, b, n, of[how], by[how], c, r);
}

static int some(int n, MPI_Request *r, int *ended, int *which) {
	int err = MPI_Testsome(n, r, ended, which, MPI_STATUSES_IGNORE);
	if (*ended == MPI_UNDEFINED) *ended = 0;
	return err;
}

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int roused;

static void rest(long micros) {
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 1000 * micros;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_mutex_lock(&held);
	if (!roused) pthread_cond_timedwait(&changed, &held, &until);
	roused = 0;
	pthread_mutex_unlock(&held);
}

static void rouse(void) {
	pthread_mutex_lock(&held);
	roused = 1;
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&held);
}

static int leave(MPI_Comm *c, MPI_Request *r) {
	int err = MPI_SUCCESS;
	if (r != NULL && (err = MPI_Cancel(r)) == MPI_SUCCESS) err = MPI_Wait(r, MPI_STATUS_IGNORE);
	if (err != MPI_SUCCESS) return err;
	return MPI_Comm_free(c);
}
*/
import "C"

import (
	"runtime"
	"unsafe"

	"github.com/gradlab/gradlab/comm"
)

// Messages of a communicator: heads, in the order of what is sent, and the bodies that
// some announce.
const (
	tagHead = iota
	tagBody
)

// pieceMost is how much of a body is one message. MPI counts in int, so that it must be
// below 2 GiB; this much outweighs by far what a message costs.
const pieceMost = 4 << 20

// calls are those under way, and what to do when each has ended. Only MPI's thread uses
// it.
type calls struct {
	comm     *C.MPI_Comm // in C's memory: MPI writes it when join ends
	requests []C.MPI_Request
	then     []func()
	which    []C.int
	over     []func() // of test
}

// add keeps a call that was started. then is called when it has ended.
func (c *calls) add(name string, code C.int, r C.MPI_Request, then func()) error {
	if err := check(name, code); err != nil {
		return err
	}
	c.requests, c.then, c.which = append(c.requests, r), append(c.then, then), append(c.which, 0)
	return nil
}

// join starts to make the communicator, which ends when all processes have.
func (c *calls) join(then func()) error {
	var r C.MPI_Request
	c.comm = (*C.MPI_Comm)(C.malloc(C.size_t(unsafe.Sizeof(*c.comm))))
	code := C.join(c.comm, &r)
	return c.add("MPI_Comm_idup", code, r, then)
}

// send sends memory that stays where it is, unchanged, until then is called.
func (c *calls) send(b unsafe.Pointer, n, to, tag int, then func()) error {
	var r C.MPI_Request
	code := C.send(*c.comm, b, C.int(n), C.int(to), C.int(tag), &r)
	return c.add("MPI_Isend", code, r, then)
}

// recv receives into memory that stays where it is; from < 0: of any process.
func (c *calls) recv(b unsafe.Pointer, n, from, tag int, then func()) error {
	var r C.MPI_Request
	code := C.recv(*c.comm, b, C.int(n), C.int(from), C.int(tag), &r)
	return c.add("MPI_Irecv", code, r, then)
}

// fold combines n elements over all processes; FoldNone: words of 64 bits, by OR.
func (c *calls) fold(b unsafe.Pointer, n int, by comm.Fold, then func()) error {
	var r C.MPI_Request
	code := C.fold(*c.comm, b, C.int(n), C.int(by), &r)
	return c.add("MPI_Iallreduce", code, r, then)
}

// test looks which calls have ended, and says how many.
func (c *calls) test() (int, error) {
	if len(c.requests) == 0 {
		return 0, nil
	}
	var ended C.int
	code := C.some(C.int(len(c.requests)), &c.requests[0], &ended, &c.which[0])
	if err := check("MPI_Testsome", code); err != nil || ended == 0 {
		return 0, err
	}
	c.over = c.over[:0]
	for _, w := range c.which[:ended] {
		c.over = append(c.over, c.then[w])
		c.then[w] = nil
	}
	kept := 0
	for i, then := range c.then {
		if then != nil {
			c.requests[kept], c.then[kept] = c.requests[i], then
			kept++
		}
	}
	clear(c.then[kept:])
	c.requests, c.then, c.which = c.requests[:kept], c.then[:kept], c.which[:kept]
	for i, then := range c.over {
		c.over[i] = nil
		then()
	}
	return int(ended), nil
}

// leave ends the one call that is left, a receive, and gives the communicator back.
func (c *calls) leave() error {
	var last *C.MPI_Request
	if len(c.requests) > 0 {
		last = &c.requests[0]
	}
	defer C.free(unsafe.Pointer(c.comm))
	return check("MPI_Comm_free", C.leave(c.comm, last))
}

// memory is a piece of C's memory, which does not move and is not collected.
func memory(n int) []byte { return unsafe.Slice((*byte)(C.malloc(C.size_t(n))), n) }

func free(b []byte) { C.free(unsafe.Pointer(&b[0])) }

// pinned is the address of bytes that stay where they are until unpin is called.
func pinned(b []byte) (at unsafe.Pointer, unpin func()) {
	p := new(runtime.Pinner)
	p.Pin(&b[0])
	return unsafe.Pointer(&b[0]), p.Unpin
}

// rest sleeps for some microseconds at most, or until rouse is called; a call since the
// last rest counts. Go's own timers may sleep for a millisecond at least.
func rest(micros int) { C.rest(C.long(micros)) }

func rouse() { C.rouse() }

// pinnedC is the address of C's memory, which never moves.
func pinnedC(b []byte) unsafe.Pointer { return unsafe.Pointer(&b[0]) }

func offset(at unsafe.Pointer, by int) unsafe.Pointer { return unsafe.Add(at, by) }

// words64 is memory as words.
func words64(b []byte) []uint64 { return unsafe.Slice((*uint64)(unsafe.Pointer(&b[0])), len(b)/8) }

// yield lets other threads of the machine have the core.
func yield() { C.sched_yield() }
