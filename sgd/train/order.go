package train

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/message"
)

// The order in which workers' words reached each shard is all that chance
// decides in a run of servers: policies, codecs and optimizers are functions of
// it. A run that logs it can be replayed on the virtual cluster, to the same
// bits.

// Arrival is a word of a worker that reached a shard.
type Arrival struct {
	Verb    Verb
	Worker  int
	Step    uint64 // of the worker
	Version uint64 // a push: what it was computed on; a pull: the least it waits for
}

// Verb says what arrived.
type Verb string

// What a shard hears from workers in the course of a run.
const (
	Push Verb = "push" // a gradient
	Pull Verb = "pull" // asks for parameters
	Rest Verb = "rest" // is at a checkpoint mark
)

var verbs = map[comm.Tag]Verb{OnPush.Tag(): Push, OnPull.Tag(): Pull, onSave.Tag(): Rest}

func arrival(h comm.Header) Arrival {
	return Arrival{verbs[h.Tag], int(h.From), h.Step, h.Version}
}

func (a Arrival) line(shard int) string {
	return fmt.Sprintf("%d %s %d %d %d\n", shard, a.Verb, a.Worker, a.Step, a.Version)
}

// OrderSink is implemented by Sinks that keep the order log: lines of
//
//	shard  push|pull|rest  worker  step  version
//
// of each shard in order, the shards' lines mixed.
type OrderSink interface{ Order(lines []byte) error }

// ParseOrder reads an order log and returns the arrivals of each of n shards.
func ParseOrder(r io.Reader, n int) ([][]Arrival, error) {
	out := make([][]Arrival, n)
	lines := bufio.NewScanner(r)
	for i := 1; lines.Scan(); i++ {
		var a Arrival
		var shard int
		if _, err := fmt.Sscan(lines.Text(), &shard, &a.Verb, &a.Worker, &a.Step, &a.Version); err != nil ||
			shard < 0 || shard >= n || a.Worker < 0 || a.Verb != Push && a.Verb != Pull && a.Verb != Rest {
			return nil, fmt.Errorf("order log, line %d: %q is not shard push|pull|rest worker step version", i, lines.Text())
		}
		out[shard] = append(out[shard], a)
	}
	return out, lines.Err()
}

// orderLog is a server's part of the log: it writes it, or is ruled by it.
type orderLog struct {
	shard int
	lines bytes.Buffer
	send  bool

	rule  []Arrival // of a replay: what has yet to come
	early map[arrivalKey][]comm.Frame
}

type arrivalKey struct {
	verb   Verb
	worker int
}

func newOrderLog(j *Job, shard int) *orderLog {
	l := &orderLog{shard: shard, send: j.LogOrder}
	if j.Replay != nil {
		l.rule, l.early = j.Replay[shard], map[arrivalKey][]comm.Frame{}
	}
	return l
}

// replayed says whether the log rules.
func (l *orderLog) replayed() bool { return l.early != nil }

// next returns the frame to handle now that f, a worker's word, has come: f
// itself unless the log rules and something else is due; ok is false if nothing
// is. Call it again with a zero frame until then.
func (l *orderLog) next(f comm.Frame) (g comm.Frame, ok bool, err error) {
	if !l.replayed() {
		return f, f.Header.Tag != 0, nil
	}
	if f.Header.Tag != 0 {
		k := arrivalKey{verbs[f.Header.Tag], int(f.Header.From)}
		l.early[k] = append(l.early[k], f)
	}
	if len(l.rule) == 0 {
		if f.Header.Tag != 0 {
			return g, false, fmt.Errorf("replay: shard %d has had all that the order log tells, but worker %d sends step %d", l.shard, f.Header.From, f.Header.Step)
		}
		return g, false, nil
	}
	due := l.rule[0]
	k := arrivalKey{due.Verb, due.Worker}
	if len(l.early[k]) == 0 {
		return g, false, nil
	}
	g, l.early[k] = l.early[k][0], l.early[k][1:]
	l.rule = l.rule[1:]
	if h := g.Header; h.Step != due.Step || h.Version != due.Version {
		return g, false, fmt.Errorf("replay: shard %d gets step %d on version %d of worker %d, where the order log has step %d on version %d",
			l.shard, h.Step, h.Version, h.From, due.Step, due.Version)
	}
	return g, true, nil
}

// note writes an arrival down.
func (l *orderLog) note(ctx context.Context, r *Rank, hd comm.Header) error {
	if !l.send {
		return nil
	}
	l.lines.WriteString(arrival(hd).line(l.shard))
	if l.lines.Len() < 32<<10 {
		return nil
	}
	return l.flush(ctx, r)
}

// flush sends what was written down to the observer.
func (l *orderLog) flush(ctx context.Context, r *Rank) error {
	if l.lines.Len() == 0 {
		return nil
	}
	buf := comm.NewBuffer(l.lines.Len())
	copy(buf.B, l.lines.Bytes())
	l.lines.Reset()
	return onOrder.Carry(ctx, r, r.job.Observer(), message.Nothing{}, 0, buf)
}

// voided says whether a replay's worker gave a step up: it never reached a
// server.
func (j *Job) voided(worker, step int) bool {
	if j.replayed == nil {
		return false
	}
	_, pushed := j.replayed[[2]int{worker, step}]
	return !pushed
}

// index prepares what voided asks.
func (j *Job) index() {
	j.replayed = nil
	if j.Replay == nil {
		return
	}
	j.replayed = map[[2]int]struct{}{}
	for _, a := range j.Replay[0] {
		if a.Verb == Push {
			j.replayed[[2]int{a.Worker, int(a.Step)}] = struct{}{}
		}
	}
}
