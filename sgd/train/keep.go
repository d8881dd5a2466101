package train

import (
	"math"
	"time"

	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/compute"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// What is measured is kept over a stop, so that the result of a run that was
// stopped tells of all of it.

// keptMeter is a Meter in a checkpoint. Losses, which may be no numbers, are
// kept as their bits.
type keptMeter struct {
	Losses []uint64
	N      int
	Before []uint64
	Age    meanSince
	Gap    meanSince
	Step   int
	At     float64
	Noise  *compute.Noise `json:",omitempty"`
}

func (m *Meter) keep() keptMeter {
	losses := make([]uint64, len(m.loss))
	for i, x := range m.loss {
		losses[i] = math.Float64bits(x)
	}
	var measured *compute.Noise
	if m.Noise.Weight > 0 {
		measured = &m.Noise
	}
	return keptMeter{losses, m.n, m.before, m.age, m.gap, m.step, m.at, measured}
}

func (k keptMeter) meter() Meter {
	loss := make([]float64, len(k.Losses))
	for i, b := range k.Losses {
		loss[i] = math.Float64frombits(b)
	}
	var measured compute.Noise
	if k.Noise != nil {
		measured = *k.Noise
	}
	return Meter{loss, k.N, measured, k.Before, k.Age, k.Gap, k.Step, k.At}
}

// keptMeasures are the measures of a server in a checkpoint.
type keptMeasures struct {
	Age, Gap record.Gauge
	SentAt   [][2]keptStamp
	Born     map[uint64]keptStamp
	PushedAt []time.Duration
	Waits    *record.Waits `json:",omitempty"`
	Meter    keptMeter
}

type keptStamp struct {
	Version uint64
	At      time.Duration
}

func (s stamp) keep() keptStamp { return keptStamp{s.version, s.at} }

// Keep keeps the meter of the rank, or the observer, that tells progress.
func (m *Meter) Keep(k *checkpoint.Keeper) {
	kept := m.keep()
	if ok := k.Record(keyMeter, &kept); ok && k.Loads() {
		*m = kept.meter()
	}
}

// keepMeasures keeps what the server has measured. On a real clock instants of
// before mean nothing.
//
// Anew: an epoch begins, with other workers.
func (s *server) keepMeasures(k *checkpoint.Keeper, anew bool) {
	m, name := s.meas, checkpoint.Key(keyMeasures, s.id)
	if !k.Loads() {
		kept := keptMeasures{Age: m.age, Gap: s.store.gap, PushedAt: m.pushedAt, Waits: m.waits, Meter: s.prog.keep(), Born: map[uint64]keptStamp{}}
		for _, s := range m.sentAt {
			kept.SentAt = append(kept.SentAt, [2]keptStamp{s[0].keep(), s[1].keep()})
		}
		for key, b := range m.born {
			kept.Born[key] = b.keep()
		}
		k.Record(name, kept)
		return
	}
	var kept keptMeasures
	if ok := k.Record(name, &kept); !ok || !anew && (len(kept.SentAt) != len(m.sentAt) || len(kept.PushedAt) != len(m.pushedAt)) {
		return
	}
	m.age, s.store.gap, m.waits, s.prog = kept.Age, kept.Gap, kept.Waits, kept.Meter.meter()
	if anew {
		return
	}
	if !s.h.Virtual() {
		s.prog.at = 0
		return
	}
	m.pushedAt = kept.PushedAt
	for w, x := range kept.SentAt {
		m.sentAt[w] = [2]stamp{{x[0].Version, x[0].At}, {x[1].Version, x[1].At}}
	}
	for key, b := range kept.Born {
		m.born[key] = stamp{b.Version, b.At}
	}
}
