package progress

import (
	"math"
	"time"
)

// meter measures a speed, smoothed over some ten seconds.
type meter struct {
	rate  float64 // per second
	at    time.Time
	count float64
	n     int // of measurements
}

// add tells the meter a count. One that went back starts it anew.
func (m *meter) add(now time.Time, count float64) {
	dt := now.Sub(m.at).Seconds()
	switch {
	case m.at.IsZero() || count < m.count:
		*m = meter{at: now, count: count}
		return
	case dt <= 0:
		return
	}
	rate := (count - m.count) / dt
	if m.n < 2 { // the first includes what came before the work
		m.rate = rate
	} else {
		m.rate += (1 - math.Exp(-dt/10)) * (rate - m.rate)
	}
	m.at, m.count = now, count
	m.n++
}

func (m *meter) known() bool { return m.n > 0 }
