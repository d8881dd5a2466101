package experiments

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/gradlab/gradlab/comm/shm"
)

// A run's folder has one writer. A lock of the folder sees to it, and the system gives
// it back when the writer ends. Some file systems have no such locks, and on some each
// host has its own: so the writer says in status.json, every few seconds, that it lives.

// Lease says in status.json who writes to a run's folder. A run that has ended has none.
type Lease struct {
	Host      string    `json:"host"`
	Boot      string    `json:"boot,omitempty"` // of the machine's start, its process table and user; "": not known
	Process   int       `json:"process"`
	Heartbeat time.Time `json:"heartbeat"` // when it last said that it lives, by its own clock
	Beats     int       `json:"beats"`     // how often it has
}

// place is where a process stands when it looks at folders: its host, and the locks
// that the file system has there.
type place struct {
	own   func() Lease // of this process, without a heartbeat
	beat  time.Duration
	flock func(path string, shared bool) (release func(), err error) // see flockFolder
}

// here is this process's.
var here = place{beat: 5 * time.Second, flock: flockFolder, own: func() Lease {
	host, _ := os.Hostname()
	return Lease{Host: host, Boot: shm.Host(), Process: os.Getpid()}
}}

const (
	leaseLook = 4  // beats that whoever wants a folder watches for one
	leaseLong = 12 // beats after which a reader takes a writer elsewhere for dead
)

// errNoLocks says that a file system has no locks.
var errNoLocks = errors.New("the file system has no locks")

// flockFolder locks a folder, for all other processes or for writers alone; nil: another
// process has locked it. Where folders cannot be locked it is a file in them.
func flockFolder(path string, shared bool) (release func(), err error) {
	l := flock.New(path, flock.SetFlag(os.O_RDONLY))
	switch runtime.GOOS {
	case "windows", "aix", "solaris", "illumos":
		l = flock.New(filepath.Join(path, "lock"))
	}
	try := l.TryLock
	if shared {
		try = l.TryRLock
	}
	ok, err := try()
	switch {
	case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENOLCK), errors.Is(err, errors.ErrUnsupported):
		_ = l.Close()
		return nil, errNoLocks
	case err != nil:
		_ = l.Close()
		return nil, err
	case !ok:
		_ = l.Close()
		return nil, nil
	}
	return func() { _ = l.Close() }, nil
}

// HoldFolder makes a folder, unless it is there, and keeps other processes from holding
// it until it is released; with shared those that share it may hold it too. Where the
// file system has no locks nobody is kept away.
func HoldFolder(path string, shared bool) (release func(), err error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	switch release, err = flockFolder(path, shared); {
	case errors.Is(err, errNoLocks):
		return func() {}, nil
	case err == nil && release == nil:
		return nil, fmt.Errorf("%s is in use by another process", path)
	}
	return release, err
}

// same says whether two leases are one process's.
func (l Lease) same(o Lease) bool {
	return l.Host == o.Host && l.Boot == o.Boot && l.Process == o.Process
}

// near says whether the holder is, or was, a process of this machine that can be seen.
func (p place) near(l Lease) bool {
	own := p.own()
	return l.Host == own.Host && l.Boot == own.Boot
}

// gone says of a process of this machine that there is none of that number.
func (l Lease) gone() bool {
	p, err := os.FindProcess(l.Process)
	if err != nil {
		return true
	}
	err = p.Signal(syscall.Signal(0))
	return errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH)
}

func (l Lease) String() string { return fmt.Sprintf("process %d on %s", l.Process, l.Host) }

// readLease is the lease in a folder's status.json; nil: there is none.
func readLease(path string) *Lease {
	var s Status
	if readJSON(filepath.Join(path, "status.json"), &s) != nil {
		return nil
	}
	return s.Lease
}

// Busy reports whether a process is writing to a run's folder, be it on another host.
// Clocks of hosts differ: where the last heartbeat seems old it watches for one, for 20 s.
func Busy(path string) bool { return here.busy(path, true) }

// SeemsBusy is [Busy] at once: it takes heartbeats by this host's clock. It is for readers.
func SeemsBusy(path string) bool { return here.busy(path, false) }

func (p place) busy(path string, watch bool) bool {
	release, err := p.flock(path, true)
	switch {
	case release != nil:
		release()
	case err == nil:
		return true
	case !errors.Is(err, errNoLocks):
		return false // there is no such folder, or it is not ours to see
	}
	l := readLease(path)
	if locks := err == nil; l == nil || p.near(*l) && (locks || l.gone()) {
		return false
	}
	return time.Since(l.Heartbeat).Abs() < leaseLong*p.beat || watch && p.beats(path, *l)
}

// beats watches whether the holder of a lease renews it, or another process takes it.
func (p place) beats(path string, l Lease) bool {
	for end := time.Now().Add(leaseLook * p.beat); time.Now().Before(end); time.Sleep(p.beat / 20) {
		var s Status
		if readJSON(filepath.Join(path, "status.json"), &s) != nil {
			continue // it is being replaced
		}
		if s.Lease == nil { // the run has ended
			return false
		}
		if s.Lease.Beats != l.Beats || !s.Lease.same(l) {
			return true
		}
	}
	return false
}

// holding is a run's folder in the hands of this process.
type holding struct {
	at     place
	path   string
	mine   Lease
	unlock func()

	mu    sync.Mutex
	last  Status
	taken error // by whom
	stop  chan struct{}
	done  sync.WaitGroup
}

// take makes a folder this process's own. Where only a heartbeat can tell whether
// another one lives, it is waited for, and note says so.
func (p place) take(path string, note func(format string, args ...any)) (*holding, error) {
	unlock, err := p.flock(path, false)
	switch {
	case errors.Is(err, errNoLocks):
		unlock = func() {}
	case err != nil:
		return nil, err
	case unlock == nil:
		return nil, fmt.Errorf("%s is in use by another process", path)
	}
	h := &holding{at: p, path: path, mine: p.own(), unlock: unlock, stop: make(chan struct{})}
	if err := h.claim(err == nil, note); err != nil {
		unlock()
		return nil, err
	}
	return h, nil
}

// claim takes over the lease in status.json, one process at a time: a file that only
// one can make says whose turn it is, on file systems of many hosts too.
func (h *holding) claim(locks bool, note func(string, ...any)) error {
	turn := filepath.Join(h.path, ".claim")
	f, err := os.OpenFile(turn, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) { // of one who died over it, unless it goes
		before, _ := os.Stat(turn)
		time.Sleep(leaseLook * h.at.beat)
		if after, err := os.Stat(turn); err == nil && before != nil && after.ModTime().Equal(before.ModTime()) {
			_ = os.Remove(turn)
		}
		f, err = os.OpenFile(turn, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is in use by another process, which takes it up just now", h.path)
	}
	if err != nil {
		return err
	}
	defer os.Remove(turn)
	_ = f.Close()
	if l := readLease(h.path); l != nil && h.lives(*l, locks, note) {
		return fmt.Errorf("%s is in use by another process (%s)", h.path, l)
	}
	var s Status
	if readJSON(filepath.Join(h.path, "status.json"), &s) != nil {
		return nil // a new folder, or one that is not whole
	}
	s.Lease = h.beat()
	return writeJSON(filepath.Join(h.path, "status.json"), s)
}

// lives says whether the holder of a lease does. Clocks of hosts differ, so that only a
// heartbeat that comes while one watches counts.
func (h *holding) lives(l Lease, locks bool, note func(string, ...any)) bool {
	if h.at.near(l) && (locks || l.gone() || l.same(h.mine)) {
		return false
	}
	note("%s was last written to by %s: watching for %v whether that one lives", h.path, l, leaseLook*h.at.beat)
	return h.at.beats(h.path, l)
}

// beat is the lease with one heartbeat more.
func (h *holding) beat() *Lease {
	h.mine.Beats++
	h.mine.Heartbeat = time.Now().UTC()
	l := h.mine
	return &l
}

// write replaces status.json. Of a run that goes on it holds the lease.
func (h *holding) write(s Status) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.look(); err != nil {
		return err
	}
	if s.Lease = nil; s.State == "running" {
		s.Lease = h.beat()
	}
	h.last = s
	return writeJSON(filepath.Join(h.path, "status.json"), s)
}

// keep says from time to time that this process lives, and looks whether the folder is
// still its own: one that was stopped for long may find it taken.
func (h *holding) keep(lost func()) {
	h.done.Go(func() {
		t := time.NewTicker(h.at.beat)
		defer t.Stop()
		for {
			select {
			case <-h.stop:
				return
			case <-t.C:
			}
			if !h.again() {
				lost()
				return
			}
		}
	})
}

func (h *holding) again() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.look() != nil {
		return false
	}
	if h.last.State == "running" {
		h.last.Lease = h.beat()
		_ = writeJSON(filepath.Join(h.path, "status.json"), h.last) // the next one may succeed
	}
	return true
}

// err says who has taken the folder; nil: it is this process's.
func (h *holding) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.look()
}

// look finds out whether status.json still holds this process's lease, if it has put
// one there. Callers hold mu.
func (h *holding) look() error {
	var s Status
	if h.taken != nil || h.last.State != "running" || readJSON(filepath.Join(h.path, "status.json"), &s) != nil {
		return h.taken
	}
	switch {
	case s.Lease == nil:
		h.taken = fmt.Errorf("%s was taken over and ended by another process: this one was silent for too long", h.path)
	case !s.Lease.same(h.mine):
		h.taken = fmt.Errorf("%s was taken over by %s: this process was silent for too long", h.path, s.Lease)
	}
	return h.taken
}

// release gives the folder back.
func (h *holding) release() {
	close(h.stop)
	h.done.Wait()
	h.unlock()
}
