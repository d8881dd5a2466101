package progress

import (
	"time"

	"github.com/gradlab/gradlab/internal/portable"
)

const (
	memory = 10.0 // seconds over which a meter smooths
	settle = 0.5  // seconds after which it forgets its first measurement
)

// meter measures a speed: what was counted over the time it took, both fading
// with age, so that counts that come in a bunch weigh no more than their time.
type meter struct {
	rate  float64 // per second
	at    time.Time
	count float64

	n          int     // of measurements
	gain, span float64 // faded sums
	early      [2]float64
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
	gain := count - m.count
	m.at, m.count = now, count
	if m.n++; m.n == 1 { // includes what came before the work
		m.early = [2]float64{gain, dt}
	} else {
		fade := portable.Exp(-dt / memory)
		m.gain, m.span = float64(fade*m.gain)+gain, float64(fade*m.span)+dt
	}
	if m.rate = m.gain / m.span; m.span < settle {
		m.rate = (m.early[0] + m.gain) / (m.early[1] + m.span)
	}
}

func (m *meter) known() bool { return m.n > 0 }
