package record

// WorkerState is how a worker does, as it told the observer now and then: about
// a hundred times in a run.
type WorkerState struct {
	Rank      int     `json:"rank"`
	State     string  `json:"state"`     // computing or waiting, whichever took more of Lately; ended; dead
	Step      int     `json:"step"`      // steps it has made
	Staleness int     `json:"staleness"` // updates that others made between its last two answers, or while its last gradient was made
	Rate      float64 `json:"rate"`      // steps a second since it told before
	Seconds   float64 `json:"seconds"`   // when it told, on the net's clock
	Lately    Times   `json:"lately"`    // where its time went since it told before
}

// States of a worker.
const (
	StateComputing = "computing"
	StateWaiting   = "waiting"
	StateEnded     = "ended"
	StateDead      = "dead"
)

// MaxWorkerStates is up to how many workers tell how they do.
const MaxWorkerStates = 64
