package collective

import "fmt"

// Verify proves t for one size, and vectors of so many bytes, by running its
// plan on sets: it fails unless
// the plan ends without a deadlock, every frame is received with the shape it
// was sent with, and every rank then holds each rank's contribution to each
// chunk exactly once.
func Verify(t Topology, size, bytes int) error {
	chunks := t.Plan(At{0, size, bytes}).Chunks
	if chunks < 1 {
		return fmt.Errorf("collective: %d chunks for %d ranks", chunks, size)
	}
	plans := make([][]Move, size)
	have := make([][][]int, size) // rank, chunk, contributor → how often
	for r := range plans {
		p := t.Plan(At{r, size, bytes})
		if p.Chunks != chunks {
			return fmt.Errorf("collective: rank %d of %d cuts %d chunks, rank 0 cuts %d", r, size, p.Chunks, chunks)
		}
		plans[r] = p.Moves
		have[r] = make([][]int, chunks)
		for c := range have[r] {
			have[r][c] = make([]int, size)
			have[r][c][r] = 1
		}
	}
	type frame struct {
		part Part
		sets [][]int
	}
	wires := map[[2]int][]frame{}
	at, sent := make([]int, size), make([]bool, size)
	for done, progress := 0, true; done < size; {
		if !progress {
			return fmt.Errorf("collective: the plan for %d ranks deadlocks", size)
		}
		progress, done = false, 0
		for r := range plans {
			if at[r] == len(plans[r]) {
				done++
				continue
			}
			m := plans[r][at[r]]
			if !sent[r] {
				if m.To >= 0 {
					if err := inside(m.Send, chunks); err != nil || m.To >= size || m.To == r {
						return fmt.Errorf("collective: rank %d of %d, move %d sends %v to %d", r, size, at[r], m.Send, m.To)
					}
					f := frame{part: m.Send}
					for c := m.Send.Lo; c < m.Send.Hi; c++ {
						f.sets = append(f.sets, append([]int(nil), have[r][c]...))
					}
					k := [2]int{r, m.To}
					wires[k] = append(wires[k], f)
				}
				sent[r], progress = true, true
			}
			if m.From >= 0 {
				k := [2]int{m.From, r}
				if len(wires[k]) == 0 {
					continue
				}
				f := wires[k][0]
				wires[k] = wires[k][1:]
				if f.part != m.Recv {
					return fmt.Errorf("collective: rank %d of %d, move %d: %d sent chunks %v, expected %v", r, size, at[r], m.From, f.part, m.Recv)
				}
				for i, set := range f.sets {
					for who, n := range set {
						if m.Add {
							n += have[r][m.Recv.Lo+i][who]
						}
						have[r][m.Recv.Lo+i][who] = n
					}
				}
			}
			at[r]++
			sent[r], progress = false, true
		}
	}
	for k, fs := range wires {
		if len(fs) > 0 {
			return fmt.Errorf("collective: %d of %d ranks leaves %d frame(s) to %d unread", k[0], size, len(fs), k[1])
		}
	}
	for r := range have {
		for c := range have[r] {
			for who, n := range have[r][c] {
				if n != 1 {
					return fmt.Errorf("collective: rank %d of %d holds rank %d's chunk %d %d times", r, size, who, c, n)
				}
			}
		}
	}
	return nil
}

func inside(p Part, chunks int) error {
	if p.Lo < 0 || p.Hi > chunks || p.Lo >= p.Hi {
		return fmt.Errorf("chunks %v of %d", p, chunks)
	}
	return nil
}
