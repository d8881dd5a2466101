package experiments

import (
	"math"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/sgd/train"
)

// addDeparted adds, in runs without servers, the gradients and bytes of workers whose
// processes died and could not report. Bytes are those that the others know of their links to
// them, and no less than they had told of themselves. What raw and bf16 would have sent is in
// proportion.
func (r *Result) addDeparted(o *train.Observer) {
	if r.Servers {
		return
	}
	n, up, down := o.Departed()
	r.Ledger.Sent, r.Ledger.Applied = r.Ledger.Sent+n, r.Ledger.Applied+n
	linkUp, linkDown := unreported(o)
	was := r.BytesUp
	r.BytesUp, r.BytesDown = r.BytesUp+max(up, linkUp), r.BytesDown+max(down, linkDown)
	if was > 0 && r.BytesUp > was {
		share := float64(r.BytesUp) / float64(was)
		r.RawBytes, r.BF16Bytes = uint64(math.Round(share*float64(r.RawBytes))), uint64(math.Round(share*float64(r.BF16Bytes)))
	}
}

// unreported is what was sent by processes that died, and to them, as far as the other ends
// of their links tell more than they or who came in their place.
func unreported(o *train.Observer) (up, down uint64) {
	type link struct{ from, to int }
	sent, received, died := map[link]uint64{}, map[link]uint64{}, map[int]bool{}
	for w := range o.Job.Workers {
		died[w] = true
	}
	for _, rep := range o.Reports {
		delete(died, rep.Rank)
		for _, p := range rep.Peers {
			sent[link{rep.Rank, p.Rank}] = p.SentBytes[comm.Gradient]
			received[link{p.Rank, rep.Rank}] = p.RecvBytes[comm.Gradient]
		}
	}
	for _, m := range o.Members {
		for _, l := range m.Left {
			died[l.Worker] = died[l.Worker] || !l.Planned
		}
	}
	for l, n := range received {
		if died[l.from] {
			up += n - min(n, sent[l])
		}
	}
	for l, n := range sent {
		if died[l.to] {
			down += n - min(n, received[l])
		}
	}
	return up, down
}
