package pipeline

import "fmt"

// Interleaved is 1F1B with several stages on each device, which takes some micro-batches
// through one stage and then through the next (Narayanan et al. 2021, arXiv 2104.04473). A
// device idles for (p−1)·(F+B+W)/v of its v stages, and sends v times as often.
//
// Micro-batches go in rounds of as many as there are devices; where that does not come out
// even, rounds are larger, and all of one size.
type Interleaved struct {
	Chunks int `doc:"stages of a device"`
}

// ZBH1 parts the gradient of the weights from that of the inputs, and makes it later, so
// that the device before waits less: ZB-H1 (Qi et al. 2023, arXiv 2401.10241), with several
// stages on a device as in PyTorch's ScheduleInterleavedZeroBubble. With one stage a device
// idles for (p−1)·(F+B−W), and the most that a device holds is as with 1F1B.
type ZBH1 struct {
	Chunks int `doc:"stages of a device"`
}

var (
	_ = Schedules.Add("interleaved", "1f1b with several stages on a device", Interleaved{Chunks: 2})
	_ = Schedules.Add("zbh1", "1f1b whose gradients of weights come later: a third of its idle time", ZBH1{Chunks: 1})
)

// Validate checks the options.
func (s Interleaved) Validate() error { return checkChunks(s.Chunks) }

// Validate checks the options.
func (s ZBH1) Validate() error { return checkChunks(s.Chunks) }

// Plan implements Schedule.
func (s Interleaved) Plan(devices, micros int) (*Plan, error) {
	return inRounds(devices, micros, s.Chunks, func(d int, r rounds) (l line) {
		// Twice the way to the last stage is what comes back first.
		ahead := min(micros*s.Chunks, (s.Chunks-1)*r.size+2*(devices-1-d))
		for k := range micros*s.Chunks + ahead {
			if k < micros*s.Chunks {
				l = append(l, r.cell(d, k, Forward))
			}
			if k >= ahead {
				l = append(l, r.cell(d, k-ahead, Backward))
			}
		}
		return l
	})
}

// Plan implements Schedule.
func (s ZBH1) Plan(devices, micros int) (*Plan, error) {
	return inRounds(devices, micros, s.Chunks, func(d int, r rounds) (l line) {
		all := micros * s.Chunks
		ahead := min(all, (s.Chunks-1)*r.size+devices-1-d)
		for k := range all + ahead {
			if k < all {
				l = append(l, r.cell(d, k, Forward))
			}
			if k < ahead {
				continue
			}
			// Device d owes d gradients of weights, until there is nothing else to do.
			l = append(l, r.cell(d, k-ahead, Inputs))
			if late := k - ahead - d; late >= 0 {
				l = append(l, r.cell(d, late, Weights))
			}
		}
		for late := max(0, all-d); late < all; late++ {
			l = append(l, r.cell(d, late, Weights))
		}
		return l
	})
}

// rounds say in which order micro-batches pass the stages of a device: size of them through
// one stage, then the same through the next.
type rounds struct{ devices, chunks, size int }

// cell is the k-th pass of a device: forward from the first stage, backward from the last.
func (r rounds) cell(device, k int, kind Kind) Cell {
	chunk := k / r.size % r.chunks
	if kind != Forward {
		chunk = r.chunks - 1 - chunk
	}
	return Cell{{chunk*r.devices + device, kind, k/(r.size*r.chunks)*r.size + k%r.size}}
}

// inRounds plans with looped stages and micro-batches in rounds.
func inRounds(devices, micros, chunks int, cells func(device int, r rounds) line) (*Plan, error) {
	if err := check(devices, micros); err != nil {
		return nil, err
	}
	n := max(1, micros/devices)
	if micros%n != 0 {
		return nil, fmt.Errorf("pipeline: %d micro-batches on %d devices make %d rounds of unlike size: want a multiple of %d", micros, devices, n, n)
	}
	r := rounds{devices, chunks, micros / n}
	return plan(devices, micros, looped(devices, chunks), func(d int) line { return cells(d, r) })
}
