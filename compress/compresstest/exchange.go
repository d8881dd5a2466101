package compresstest

import (
	"bytes"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/compress"
)

// ring is three ranks that exchange in memory, the plainest network there is.
type ring struct {
	ex     []compress.Exchange
	road   compress.Road
	sent   []int // bytes per rank in the last step
	rounds int   // operations in the last step
	asked  []Asked
	log    [][]byte
}

const world = 3

func newRing(f compress.Family, d int) (*ring, error) { return newRingOn(f, block(d)) }

func newRingOn(f compress.Family, b compress.Block) (*ring, error) {
	r := &ring{sent: make([]int, world)}
	for rank := range world {
		b.Rank, b.World = rank, world
		x, road, err := compress.NewExchange(f, b)
		if err != nil {
			return nil, fmt.Errorf("NewExchange: %w", err)
		}
		if rank > 0 && road != r.road {
			return nil, fmt.Errorf("rank %d takes the road %q, rank 0 %q", rank, road, r.road)
		}
		r.ex, r.road = append(r.ex, x), road
	}
	return r, nil
}

// step runs one step; g is indexed by rank.
func (r *ring) step(n int, g [][]float32) error {
	return r.at(compress.Step{N: n, Seed: block(0).Seed}, g)
}

// at is step with the rest of the step's context.
func (r *ring) at(s compress.Step, g [][]float32) error {
	ops := make([]compress.Op, world)
	clear(r.sent)
	r.rounds = 0
	r.log, r.asked = r.log[:0], r.asked[:0]
	for rank, x := range r.ex {
		var err error
		kept := append([]float32(nil), g[rank]...)
		if ops[rank], err = x.Begin(g[rank], s); err != nil {
			return fmt.Errorf("Begin: %w", err)
		}
		if !equal(kept, g[rank]) {
			return fmt.Errorf("Begin changed its source")
		}
	}
	for round := 0; ; round++ {
		kind := ops[0].Kind
		for rank, op := range ops {
			if op.Kind != kind || len(op.Floats) != len(ops[0].Floats) || op.Wire != ops[0].Wire {
				return fmt.Errorf("round %d: rank %d asks for another operation than rank 0", round, rank)
			}
			r.sent[rank] += len(op.Floats)*op.Wire.Bytes() + len(op.Bytes)
			r.log = append(r.log, bytes.Clone(op.Bytes))
			for to, b := range op.Slices {
				if to != rank {
					r.sent[rank] += len(b)
					r.log = append(r.log, bytes.Clone(b))
				}
			}
			for _, v := range op.Floats {
				if err := fits(v, op.Wire); err != nil {
					return fmt.Errorf("round %d, rank %d: %w", round, rank, err)
				}
				u := math.Float32bits(v)
				r.log = append(r.log, []byte{byte(u), byte(u >> 8), byte(u >> 16), byte(u >> 24)})
			}
		}
		if kind == compress.OpNone {
			return nil
		}
		r.rounds++
		r.asked = append(r.asked, askedBy(ops[0]))
		if round > 20 {
			return fmt.Errorf("no end after %d rounds", round)
		}
		Perform(ops)
		for _, v := range ops[0].Floats {
			if err := fits(v, ops[0].Wire); err != nil {
				return fmt.Errorf("round %d, the sum: %w", round, err)
			}
		}
		for rank, x := range r.ex {
			var err error
			if ops[rank], err = x.Next(ops[rank]); err != nil {
				return fmt.Errorf("Next: %w", err)
			}
		}
	}
}

// fits says whether a wire carries v as it is.
func fits(v float32, w compress.Wire) error {
	limit := float64(w.Limit())
	if limit > 0 && !(math.Abs(float64(v)) <= limit && v == float32(int32(v))) {
		return fmt.Errorf("%v on a wire for whole numbers up to %v", v, limit)
	}
	return nil
}

// Perform carries out one operation. Results are copies: nobody may keep what
// the network lends.
func Perform(ops []compress.Op) {
	total := append([]float32(nil), ops[0].Floats...)
	for _, op := range ops[1:] {
		for i, v := range op.Floats {
			if ops[0].Kind == compress.OpMax {
				total[i] = max(total[i], v)
			} else {
				total[i] += v
			}
		}
	}
	parts := make([][]byte, len(ops))
	for i := range ops {
		parts[i] = bytes.Clone(ops[i].Bytes)
	}
	for i := range ops {
		switch ops[i].Kind {
		case compress.OpGather:
			ops[i].Parts = parts
		case compress.OpScatter:
			ops[i].Parts = make([][]byte, len(ops))
			for from := range ops {
				ops[i].Parts[from] = bytes.Clone(ops[from].Slices[i])
			}
		default:
			copy(ops[i].Floats, total)
		}
	}
}

// checkExchange: all ranks end with the same bits, the contributions credited
// add up to the output, the bytes are those claimed, the road is the one the
// claims imply, and a restart from saved state, at any step, changes nothing.
func checkExchange(f compress.Family) error {
	for _, d := range []int{0, 1, 65, 513} {
		r, err := newRing(f, d)
		if err != nil {
			return err
		}
		claims, claimed := compress.ClaimsOf(f, block(d))
		if want := map[bool]compress.Road{true: compress.RoadSum, false: compress.RoadGather}[claims.Linear == compress.FloatSum]; claimed && r.road != want && r.road != compress.RoadOwn {
			return fmt.Errorf("%d elements: takes the road %q, claims %q", d, r.road, want)
		}
		if claimed && r.road != compress.RoadOwn && claims.Rounds+claims.Asked > 0 {
			return fmt.Errorf("%d elements: claims %d bytes in %d rounds of its own, but takes the road %q", d, claims.Asked, claims.Rounds, r.road)
		}
		var again []*ring // one from every step
		for n := range stateSteps {
			g := make([][]float32, world)
			for rank := range g {
				g[rank] = inputs[(n+rank)%4].vector(d, n)
			}
			z, err := r.restart(f, d)
			if err != nil {
				return err
			}
			again = append(again, z)
			if err := r.step(n, g); err != nil {
				return fmt.Errorf("%d elements, step %d: %w", d, n, err)
			}
			if err := r.agree(d); err != nil {
				return fmt.Errorf("%d elements, step %d: %w", d, n, err)
			}
			if claimed {
				if err := r.sentAsClaimed(claims); err != nil {
					return fmt.Errorf("%d elements: %w", d, err)
				}
			}
			log := bytes.Join(r.log, nil)
			for from, z := range again {
				if err := z.step(n, g); err != nil {
					return err
				}
				if !bytes.Equal(log, bytes.Join(z.log, nil)) {
					return fmt.Errorf("%d elements, restarted at step %d: at step %d other bytes", d, from, n)
				}
			}
		}
	}
	return nil
}

// sentAsClaimed holds the bytes and rounds of the last step to claims.
func (r *ring) sentAsClaimed(claims compress.Claims) error {
	for rank, sent := range r.sent {
		if r.road == compress.RoadOwn {
			if r.rounds > claims.Rounds || sent > claims.Asked || !claims.AskedBound && (r.rounds != claims.Rounds || sent != claims.Asked) {
				return fmt.Errorf("rank %d put %d bytes into %d rounds, claims %d in %d (a bound: %v)", rank, sent, r.rounds, claims.Asked, claims.Rounds, claims.AskedBound)
			}
		} else if sent > claims.Size || claims.Exact && sent != claims.Size {
			return fmt.Errorf("rank %d sent %d bytes, claims %d (exact: %v)", rank, sent, claims.Size, claims.Exact)
		}
	}
	return nil
}

// agree compares outputs and credits of the last step.
func (r *ring) agree(d int) error {
	total, credited := make([]float32, d), make([]float32, d)
	if err := r.ex[0].Output(total, 1); err != nil {
		return fmt.Errorf("Output: %w", err)
	}
	for rank, x := range r.ex {
		for range 2 { // asking twice changes nothing
			got := make([]float32, d)
			if err := x.Output(got, 1); err != nil {
				return fmt.Errorf("Output: %w", err)
			}
			if !equal(got, total) {
				return fmt.Errorf("rank %d ends with other bits than rank 0", rank)
			}
		}
		if err := x.Credited(credited, 1); err != nil {
			return fmt.Errorf("Credited: %w", err)
		}
	}
	if e := distance2(total, credited); e > 1e-11*(norm2(total)+norm2(credited)) {
		return fmt.Errorf("credits differ from the output by %.3g of its squared norm", e/norm2(total))
	}
	return nil
}

// restart makes a ring that goes on from the state of r.
func (r *ring) restart(f compress.Family, d int) (*ring, error) {
	z, err := newRing(f, d)
	if err != nil {
		return nil, err
	}
	for rank, x := range r.ex {
		s, ok := x.(compress.Stateful)
		if !ok {
			continue
		}
		state, err := s.AppendBinary(nil)
		if err != nil {
			return nil, err
		}
		if err := z.ex[rank].(compress.Stateful).UnmarshalBinary(state); err != nil {
			return nil, err
		}
	}
	return z, nil
}
