package nemesis

import (
	"errors"
	"fmt"
	"time"
)

// Links is which links a fault is on, and when. Packets of one connection are in order and
// come once for those who read it, so what happens to packets shows as time: frames behind
// a lost one wait for it, too.
type Links struct {
	From []string      `doc:"who sends: [w0,s*]; none: everybody"`
	To   []string      `doc:"who receives; none: everybody"`
	At   time.Duration `doc:"from when, on the run's clock"`
	For  time.Duration `doc:"for how long; 0: to the end"`
}

func (l Links) check() error {
	var errs []error
	for _, name := range append(append([]string{}, l.From...), l.To...) {
		errs = append(errs, named(name))
	}
	return errors.Join(append(errs, within(l.At, l.For))...)
}

func (l Links) act(w World, a Act) (Act, error) {
	var errFrom, errTo error
	a.From, errFrom = w.set(l.From)
	a.To, errTo = w.set(l.To)
	a.At, a.For = l.At, l.For
	return a, errors.Join(errFrom, errTo)
}

// itself is the Draw of an Actor.
func itself(w World, f Actor) ([]Fault, error) {
	_, err := f.Act(w)
	return []Fault{f}, err
}

// share checks an option that is a share.
func share(v float64) error {
	if !(v >= 0 && v < 1) {
		return fmt.Errorf(`option "share": want at least 0 and less than 1, not %v`, v)
	}
	return nil
}

// Partition cuts ranks off from others: nothing passes, and what was sent meanwhile is sent
// again when the cut is over, as TCP does, after 200 ms, 400 ms, 800 ms and so on. Who is
// cut off from the observer for longer than the lease is dead by the coordinator's word;
// two others lose their link for good, and each counts the other as dead.
//
//	at ≤ t < at + for: no frame between of and from
//
// Paper: Jepsen's nemesis of the name (Kingsbury 2013); waits double (RFC 6298, §5.5).
// Tuning: one_way=true cuts only what of sends; for below the lease is a delay.
// Cost: a look at every frame while it lasts.
type Partition struct {
	Of     []string      `spec:",show" doc:"who is cut off"`
	From   []string      `doc:"from whom; none: from all others"`
	OneWay bool          `doc:"what is sent to them still arrives"`
	At     time.Duration `spec:",show" doc:"when, on the run's clock"`
	For    time.Duration `spec:",show" doc:"for how long; 0: to the end"`
}

var _ = Faults.Add("partition", "ranks are cut off from others, both ways or one", Partition{Of: []string{"w0"}, For: time.Second})

// Validate checks the options.
func (f Partition) Validate() error {
	if len(f.Of) == 0 {
		return errors.New(`option "of": want the ranks that are cut off, such as [w0,w1]`)
	}
	return Links{f.Of, f.From, f.At, f.For}.check()
}

// Draw implements Fault.
func (f Partition) Draw(w World) ([]Fault, error) { return itself(w, f) }

// Act implements Actor.
func (f Partition) Act(w World) (Act, error) {
	a, err := Links{f.Of, f.From, f.At, f.For}.act(w, Act{What: Cutting, Both: !f.OneWay})
	if err == nil && f.From == nil {
		a.To = w.others(a.From)
	}
	return a, err
}

// Loss loses packets of 1448 bytes. The sender sends them again: after a round trip, or
// after 200 ms where the packet is one of the last three of its frame or is lost again.
//
//	P(a packet is lost) = share
//
// Paper: fast retransmit (RFC 6675) and the retransmission timer (RFC 6298; 200 ms is
// Linux's least). We leave out how the window shrinks.
// Tuning: 0.01 is a bad link, 0.05 one that hardly works.
// Cost: one draw for each packet of a frame, no more than 64.
type Loss struct {
	Share float64 `spec:",show" doc:"of packets, below 1"`
	Links
}

var _ = Faults.Add("loss", "packets are lost and sent again", Loss{Share: 0.01})

// Validate checks the options.
func (f Loss) Validate() error { return errors.Join(share(f.Share), f.check()) }

// Draw implements Fault.
func (f Loss) Draw(w World) ([]Fault, error) { return itself(w, f) }

// Act implements Actor.
func (f Loss) Act(w World) (Act, error) { return f.act(w, Act{What: Losing, Share: f.Share}) }

// Duplicate sends packets twice. The receiver drops the second one, so what it costs is
// bytes alone, which the run counts as resent.
//
//	P(a packet comes twice) = share
//
// Paper: netem's option of the name (Hemminger 2005).
// Tuning: for pushes that the engine itself must see twice, use resend.
// Cost: one draw for each packet of a frame, no more than 64.
type Duplicate struct {
	Share float64 `spec:",show" doc:"of packets, below 1"`
	Links
}

var _ = Faults.Add("duplicate", "packets come twice", Duplicate{Share: 0.01})

// Validate checks the options.
func (f Duplicate) Validate() error { return errors.Join(share(f.Share), f.check()) }

// Draw implements Fault.
func (f Duplicate) Draw(w World) ([]Fault, error) { return itself(w, f) }

// Act implements Actor.
func (f Duplicate) Act(w World) (Act, error) {
	return f.act(w, Act{What: Doubling, Share: f.Share})
}

// Reorder holds packets back, so that later ones overtake them. A frame is whole when its
// last packet is there, and frames of one connection stay in order.
//
//	P(a packet is late) = share, by the time by
//
// Paper: netem's option of the name (Hemminger 2005).
// Tuning: by of a few round trips.
// Cost: one draw a frame.
type Reorder struct {
	Share float64       `spec:",show" doc:"of packets, below 1"`
	By    time.Duration `doc:"how late they are"`
	Links
}

var _ = Faults.Add("reorder", "packets overtake one another", Reorder{Share: 0.01, By: time.Millisecond})

// Validate checks the options.
func (f Reorder) Validate() error { return errors.Join(share(f.Share), by(f.By), f.check()) }

// Draw implements Fault.
func (f Reorder) Draw(w World) ([]Fault, error) { return itself(w, f) }

// Act implements Actor.
func (f Reorder) Act(w World) (Act, error) {
	return f.act(w, Act{What: Reordering, Share: f.Share, By: f.By})
}

// Delay makes the way longer.
//
//	latency + max(0, by + jitter·N(0,1)), frames of one connection in order
//
// Paper: netem's option of the name (Hemminger 2005).
// Tuning: 50 ms is another continent; jitter of a tenth of by.
// Cost: one draw a frame.
type Delay struct {
	By     time.Duration `spec:",show" doc:"how much longer frames take"`
	Jitter time.Duration `doc:"standard deviation of by"`
	Links
}

var _ = Faults.Add("delay", "frames take longer", Delay{By: 10 * time.Millisecond})

// Validate checks the options.
func (f Delay) Validate() error {
	if f.Jitter < 0 || f.Jitter > horizon {
		return fmt.Errorf(`option "jitter": want a duration of 0 or more, not %v`, f.Jitter)
	}
	return errors.Join(by(f.By), f.check())
}

// Draw implements Fault.
func (f Delay) Draw(w World) ([]Fault, error) { return itself(w, f) }

// Act implements Actor.
func (f Delay) Act(w World) (Act, error) {
	return f.act(w, Act{What: Delaying, By: f.By, Jitter: f.Jitter})
}

// by checks an option that says how late.
func by(d time.Duration) error {
	if d < 0 || d > horizon {
		return fmt.Errorf(`option "by": want a duration of 0 or more, not %v`, d)
	}
	return nil
}

// Slow makes links slow: a queue behind the NIC lets frames through one after the other,
// each in so many times the time that it took to leave the NIC.
//
//	time of a frame in the queue = times · time in the NIC, from its first byte on
//
// Paper: netem's rate (Hagen 2011), relative to the link.
// Tuning: 10 is a NIC that fell back from 10 Gb/s to 1 Gb/s.
// Cost: none to speak of.
type Slow struct {
	Times float64 `spec:",show" doc:"how many times as long bytes take, at least 1"`
	Links
}

var _ = Faults.Add("slow", "links carry fewer bytes a second", Slow{Times: 10})

// Validate checks the options.
func (f Slow) Validate() error {
	if !(f.Times >= 1 && f.Times <= 1e6) {
		return fmt.Errorf(`option "times": want 1 … 1e6, not %v`, f.Times)
	}
	return f.check()
}

// Draw implements Fault.
func (f Slow) Draw(w World) ([]Fault, error) { return itself(w, f) }

// Act implements Actor.
func (f Slow) Act(w World) (Act, error) { return f.act(w, Act{What: Slowing, Times: f.Times}) }

// Resend lets servers get pushes twice, the second right behind the first, as from a worker
// whose connection broke before the answer came. No connection hides that: the server has
// to refuse the second one.
//
//	P(a push comes twice) = share
//
// Paper: at most once (Spector 1982).
// Tuning: 0.5 is hard enough.
// Cost: one draw a push.
type Resend struct {
	Share float64 `spec:",show" doc:"of pushes, below 1"`
	Links
}

var _ = Faults.Add("resend", "servers get pushes twice", Resend{Share: 0.1})

// Validate checks the options.
func (f Resend) Validate() error { return errors.Join(share(f.Share), f.check()) }

// Draw implements Fault.
func (f Resend) Draw(w World) ([]Fault, error) { return itself(w, f) }

// Act implements Actor.
func (f Resend) Act(w World) (Act, error) {
	if len(f.To) == 0 {
		f.To = []string{"s*"}
	}
	return f.act(w, Act{What: Resending, Share: f.Share})
}
