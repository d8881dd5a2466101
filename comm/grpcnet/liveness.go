package grpcnet

import (
	"fmt"
	"time"
)

// stallBytes is what a peer must take within a lease to count as reading.
const stallBytes = 4 << 10

// awayShare is which share of a lease the watcher may come late by and still judge.
// Under load it is late all the time; were that forgiven, no silence would be noticed.
const awayShare = 8

// watch gives up peers that are silent or take nothing, and this process itself
// if it was away for longer than its lease. It measures its own delay and adds it
// to the peers' leases, if it is more than a small share of them: who was away himself
// cannot tell who was silent.
func (r *run) watch(stop <-chan struct{}) {
	every := max(r.cfg.Heartbeat/2, time.Millisecond)
	allowed := max(2*every, r.cfg.Lease/awayShare)
	t := time.NewTicker(every)
	defer t.Stop()
	last := time.Duration(r.awakeAt.Load())
	for {
		select {
		case <-stop:
			return
		case <-t.C:
		}
		if r.overslept() {
			return
		}
		now := monotonic()
		away := now - last
		last = now
		r.awakeAt.Store(int64(now))
		for p := range r.links {
			if l := r.links[p].Load(); l != nil {
				if away > allowed {
					l.seen += away
					l.flow[0].at += away
					l.flow[1].at += away
				}
				l.check(now, r.cfg.Lease)
			}
		}
		for _, h := range r.hosts {
			h.checkAlone()
		}
	}
}

// overslept fences this process if it was stopped for longer than its lease.
// Whatever happens right after it wakes asks first.
func (r *run) overslept() bool {
	at := r.awakeAt.Load()
	if at == 0 { // not watching yet, or no more
		return false
	}
	away := monotonic() - time.Duration(at)
	if away < r.cfg.Lease {
		return false
	}
	r.fenced("its own clock", away)
	return true
}

// check judges one link. Only the watcher calls it.
func (l *link) check(now, lease time.Duration) {
	if heard := l.conn.heard.Load(); heard != l.lastHear {
		l.lastHear = heard
		l.seen = max(l.seen, time.Duration(heard))
	}
	if l.taking.Load() { // who does not listen cannot say that others are silent
		l.seen = max(l.seen, now)
	}
	if silent := now - l.seen; silent > lease {
		l.kill(fmt.Sprintf("silent for %v, its lease is %v", silent.Round(time.Millisecond), lease), silent)
		return
	}
	stuck := l.flow[0].stuck(now, l.busy.Load(), l.conn.wrote.Load())
	if l.lane != nil {
		stuck = max(stuck, l.flow[1].stuck(now, l.lane.Busy(), l.lane.Taken()))
	}
	if stuck > lease {
		l.kill(fmt.Sprintf("takes no data for %v, its lease is %v", stuck.Round(time.Millisecond), lease), stuck)
	}
}

// progress tells whether a peer takes what it is sent.
type progress struct {
	at    time.Duration // when it last did, or nothing waited
	bytes uint64        // how much it had taken then
}

// stuck is for how long something has waited and the peer has not taken enough.
func (p *progress) stuck(now time.Duration, waits bool, taken uint64) time.Duration {
	if !waits || taken-p.bytes >= stallBytes {
		p.at, p.bytes = max(p.at, now), taken
	}
	return now - p.at
}
