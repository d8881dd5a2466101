package collective

// Price is what a plan costs.
type Price struct {
	Steps    int     // longest chain of dependent frames
	Messages int     // frames sent by the busiest rank
	Sent     int     // bytes sent by the busiest rank
	Seconds  float64 // alpha-beta time of the critical path
}

// Cost prices an all-reduce of n elements of width bytes over size ranks, with
// alpha seconds of latency a frame and beta seconds a byte at each NIC
// (Hockney's model; a rank sends one frame at a time and receives one at a
// time).
func Cost(t Topology, size, n, width int, alpha, beta float64) Price {
	chunks := t.Chunks(size)
	plans := make([][]Move, size)
	for r := range plans {
		plans[r] = t.Plan(At{r, size})
	}
	type frame struct {
		ready float64
		depth int
		bytes int
	}
	wires := map[[2]int][]frame{}
	var p Price
	at, sent := make([]int, size), make([]bool, size)
	now, depth := make([]float64, size), make([]int, size)
	tx, rx := make([]float64, size), make([]float64, size)
	bytes, msgs := make([]int, size), make([]int, size)
	for progress := true; progress; {
		progress = false
		for r := range plans {
			if at[r] == len(plans[r]) {
				continue
			}
			m := plans[r][at[r]]
			if !sent[r] {
				if m.To >= 0 {
					lo, hi := Bounds(m.Send, chunks, n)
					b := (hi - lo) * width
					tx[r] = max(tx[r], now[r]) + float64(b)*beta
					k := [2]int{r, m.To}
					wires[k] = append(wires[k], frame{tx[r] - float64(b)*beta + alpha, depth[r] + 1, b})
					bytes[r] += b
					msgs[r]++
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
				rx[r] = max(rx[r], f.ready) + float64(f.bytes)*beta
				now[r] = max(now[r], rx[r])
				depth[r] = max(depth[r], f.depth)
			}
			at[r]++
			sent[r], progress = false, true
		}
	}
	for r := range plans {
		p.Steps = max(p.Steps, depth[r])
		p.Messages = max(p.Messages, msgs[r])
		p.Sent = max(p.Sent, bytes[r])
		p.Seconds = max(p.Seconds, max(now[r], tx[r]))
	}
	return p
}
