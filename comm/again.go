package comm

// AgainError is the end of a run whose ranks all meet again, as one is gone without which
// the others cannot go on, and another process takes its place. What was under way is void,
// and nobody hears of it later.
type AgainError struct {
	Err error // what the run has lost
}

func (e *AgainError) Error() string { return "all processes are to meet again: " + e.Err.Error() }

// Unwrap is what the run has lost.
func (e *AgainError) Unwrap() error { return e.Err }
