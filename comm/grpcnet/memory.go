package grpcnet

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/shm"
)

// host names this machine to processes that might share memory with it.
func (c *Config) host() string {
	if c.Links == LinksGRPC {
		return ""
	}
	return shm.Host()
}

// meetable looks for processes that insist on shared memory with one they cannot
// share it with. All processes find the same.
func (r *run) meetable() error {
	for i := range r.table {
		for j := range r.table {
			a, b := &r.table[i], &r.table[j]
			if i != j && a.Links == LinksSHM && (a.Host == "" || a.Host != b.Host) {
				return fmt.Errorf("grpcnet: links=%s for %s, but there is no shared memory with %s: it is on another host, in another container, or was told to use gRPC", LinksSHM, a.name(), b.name())
			}
		}
	}
	return nil
}

// offer makes memory for the lane to process p, if there is to be one.
func (r *run) offer(p int) (*shm.Link, *shm.Offer, error) {
	if host := r.cfg.host(); host == "" || host != r.table[p].Host {
		return nil, nil, nil
	}
	memory, o, err := shm.Create(laneBytes)
	if err != nil {
		return nil, nil, r.without(p, err.Error())
	}
	return memory, &o, nil
}

// takeOffer opens the memory that another process of this host has made.
func (r *run) takeOffer(q *linkRequest) (*shm.Link, error) {
	switch {
	case q.Memory == nil:
		return nil, errors.New("it offers no shared memory")
	case r.cfg.host() == "":
		return nil, errors.New("no shared memory is wanted here")
	}
	return shm.Open(*q.Memory, laneBytes)
}

// crowded says whether processes that share this one's memory outnumber the
// cores.
func (r *run) crowded() bool {
	n, host := 0, r.table[r.self].Host
	for i := range r.table {
		if r.table[i].Host == host {
			n++
		}
	}
	return n > runtime.NumCPU()
}

// without goes on without a lane to process p, if that is permitted.
func (r *run) without(p int, why string) error {
	if r.cfg.Links != LinksSHM {
		return nil
	}
	return fmt.Errorf("grpcnet: links=%s, but there is no shared memory with %s: %s", LinksSHM, r.table[p].name(), why)
}

// discard gives up memory that no link will use.
func discard(memory *shm.Link) {
	if memory != nil {
		memory.Close()
		memory.Unmap()
	}
}

// Fetch implements comm.Fetcher.
func (r *run) Fetch(w *comm.Receipt, from int, wait bool) {
	if from < 0 || from >= len(r.owner) {
		return
	}
	if l := r.links[r.owner[from]].Load(); l != nil && l.lane != nil {
		l.lane.fetch(w, wait)
	}
}

// Sleeps implements comm.Fetcher: whoever sleeps needs the goroutines of lanes.
func (r *run) Sleeps(more int) {
	if r.sleeping.Add(int32(more)); more < 0 {
		return
	}
	for i := range r.links {
		if l := r.links[i].Load(); l != nil && l.lane != nil {
			l.lane.wake()
		}
	}
}
