package comm

// Strain says how well a rank kept to the times it was to show on a real clock.
// Computations that took longer than they were to are time that nothing can take
// back: with many of them a run shows this machine and not the one it stands for.
type Strain struct {
	Works       uint64  `json:"works"`        // computations
	Overruns    uint64  `json:"overruns"`     // of these, took longer than stated
	OverSeconds float64 `json:"over_seconds"` // by so much in all
	Frames      uint64  `json:"frames"`       // that arrived
	LateSeconds float64 `json:"late_seconds"` // after their time, in all
}

// Add accumulates o.
func (s *Strain) Add(o Strain) {
	s.Works += o.Works
	s.Overruns += o.Overruns
	s.OverSeconds += o.OverSeconds
	s.Frames += o.Frames
	s.LateSeconds += o.LateSeconds
}

// Strained is a Host that shows other times than those things take.
type Strained interface {
	Host
	Strain() Strain
}
