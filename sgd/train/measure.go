package train

import (
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// measures is what a server measures beside staleness.
type measures struct {
	age      record.Gauge
	sentAt   [][2]stamp       // of each worker: when it was last sent parameters
	born     map[uint64]stamp // of pushes not applied yet, by key
	pushedAt []time.Duration  // of each worker's unanswered push
	waits    *record.Waits    // of the run's workers, whoever is there; nil: nobody has waited
	names    []int            // which of them each worker is
	all      int              // how many they are
}

type stamp struct {
	version uint64
	at      time.Duration
}

func newMeasures(j *Job) *measures {
	m := &measures{sentAt: make([][2]stamp, j.Workers), born: map[uint64]stamp{}, pushedAt: make([]time.Duration, j.Workers), all: j.Workers}
	if j.joined != nil {
		m.names, m.all = j.joined.m.Workers, j.joined.of.Workers
	}
	return m
}

// pushKey tells pushes apart.
func pushKey(h comm.Header) uint64 { return uint64(h.From)<<40 ^ h.Seq }

// sent notes when a worker was sent the parameters of a version.
func (m *measures) sent(worker int, version uint64, now time.Duration) {
	s := &m.sentAt[worker]
	if s[0].version != version {
		s[1] = s[0]
	}
	s[0] = stamp{version, now}
}

// pushed notes a push and the age of what it was computed on.
func (m *measures) pushed(h comm.Header, now time.Duration) {
	m.pushedAt[h.From] = now
	s := m.sentAt[h.From]
	b := s[0]
	if b.version != h.Version && s[1].version == h.Version {
		b = s[1]
	}
	m.born[pushKey(h)] = b
}

// applied notes that a push went into an update.
func (m *measures) applied(h comm.Header, now time.Duration) {
	if b, ok := m.born[pushKey(h)]; ok {
		m.age.Add((now - b.at).Seconds())
		delete(m.born, pushKey(h))
	}
}

// rejected notes that a push will not.
func (m *measures) rejected(h comm.Header) { delete(m.born, pushKey(h)) }

// answered notes that what worker by did let worker w go on.
func (m *measures) answered(w, by int, now time.Duration) {
	d := (now - m.pushedAt[w]).Seconds()
	if w == by || d <= 0 {
		return
	}
	if m.names != nil {
		w, by = m.names[w], m.names[by]
	}
	if n := m.all; m.waits == nil {
		m.waits = &record.Waits{Waited: make([]float64, n), For: make([]float64, n)}
		if n <= record.MaxWaitPairs {
			m.waits.Pairs = make([][]float64, n)
			for i := range m.waits.Pairs {
				m.waits.Pairs[i] = make([]float64, n)
			}
		}
	}
	m.waits.Waited[w] += d
	m.waits.For[by] += d
	if m.waits.Pairs != nil {
		m.waits.Pairs[w][by] += d
	}
}
