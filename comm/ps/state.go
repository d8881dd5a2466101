package ps

import (
	"encoding/json"
	"fmt"

	"github.com/gradlab/gradlab/comm"
)

// stateOf is what a core must keep over a restart. Held pushes go along as they
// came, payload and all.
type stateOf struct {
	Version, Taken int
	Live           []bool // members
	Pushed         []int
	Inc            []uint32
	Seq            []uint64
	Ledger         Ledger
	Causes         map[string]uint64
	Delays         []uint64
	Held           []heldPush
	Loss, First    float64
	Losses         uint64
}

type heldPush struct {
	Header comm.Header
	Body   []byte
	Of     []comm.Header `json:",omitempty"` // the gradients in a sum
}

// AppendBinary implements encoding.BinaryAppender. Take it only while no worker
// waits: unanswered pushes are not part of it.
func (c *Core) AppendBinary(b []byte) ([]byte, error) {
	s := stateOf{
		Version: c.view.Version, Taken: c.taken, Live: c.member, Pushed: c.view.Pushed,
		Inc: c.inc, Seq: c.seq, Ledger: c.ledger, Causes: c.causes, Delays: c.delays,
		Loss: c.view.Loss, First: c.view.First, Losses: c.losses,
	}
	for _, p := range c.held {
		s.Held = append(s.Held, heldPush{p.Header, p.Body, p.of})
	}
	j, err := json.Marshal(s)
	return append(b, j...), err
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler for a core of the same
// number of workers.
func (c *Core) UnmarshalBinary(b []byte) error {
	var s stateOf
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("ps: state: %w", err)
	}
	return c.restore(s)
}

// restore takes up a state of as many workers.
func (c *Core) restore(s stateOf) error {
	n := len(c.seq)
	if len(s.Live) != n || len(s.Pushed) != n || len(s.Inc) != n || len(s.Seq) != n {
		return fmt.Errorf("ps: state of %d workers, want %d", len(s.Live), n)
	}
	c.view.Version, c.taken, c.member, c.view.Pushed = s.Version, s.Taken, s.Live, s.Pushed
	copy(c.view.Live, c.member)
	c.view.Loss, c.view.First, c.losses = s.Loss, s.First, s.Losses
	c.inc, c.seq, c.ledger, c.delays = s.Inc, s.Seq, s.Ledger, s.Delays
	c.late = 0
	for delay, n := range c.delays {
		c.late += uint64(delay) * n
	}
	if s.Causes != nil {
		c.causes = s.Causes
	}
	c.held = nil
	for _, h := range s.Held {
		p := push{Frame: comm.Frame{Header: h.Header}, of: h.Of}
		for i := range p.gradients() {
			if w := int(p.at(i).From); w < 0 || w >= n {
				return fmt.Errorf("ps: state holds a push of worker %d of %d", w, n)
			}
		}
		buf := comm.NewBuffer(len(h.Body))
		copy(buf.B, h.Body)
		p.Frame = comm.NewFrame(h.Header, buf)
		c.held = append(c.held, p)
		c.hold(&p)
	}
	return nil
}
