//go:build unix

package cli

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// A second SIGTERM within a second is the same stop, and a second Ctrl-C that comes faster than
// a person types; anything else ends at once.
func TestSignals(t *testing.T) {
	type sent struct {
		sig  os.Signal
		at   time.Duration
		want int
	}
	for name, seq := range map[string][]sent{
		"srun":                 {{syscall.SIGTERM, 0, sigFirst}, {syscall.SIGTERM, 900 * time.Millisecond, sigEcho}, {syscall.SIGTERM, 999 * time.Millisecond, sigEcho}},
		"twice":                {{syscall.SIGTERM, 0, sigFirst}, {syscall.SIGTERM, time.Second, sigAgain}},
		"echo, later":          {{syscall.SIGTERM, 0, sigFirst}, {syscall.SIGTERM, 0, sigEcho}, {syscall.SIGTERM, 3 * time.Second, sigAgain}},
		"timeout -s INT":       {{os.Interrupt, 0, sigFirst}, {os.Interrupt, time.Millisecond, sigEcho}},
		"Ctrl-C twice":         {{os.Interrupt, 0, sigFirst}, {os.Interrupt, 200 * time.Millisecond, sigAgain}},
		"Ctrl-C, TERM":         {{os.Interrupt, 0, sigFirst}, {syscall.SIGTERM, time.Millisecond, sigAgain}},
		"sbatch --signal=USR1": {{syscall.SIGUSR1, 0, sigFirst}, {syscall.SIGUSR1, 5 * time.Second, sigEcho}, {syscall.SIGTERM, time.Minute, sigFirst}, {syscall.SIGTERM, time.Minute + time.Millisecond, sigEcho}},
		"TERM, USR1":           {{syscall.SIGTERM, 0, sigFirst}, {syscall.SIGUSR1, 2 * time.Second, sigEcho}},
		"TERM, Ctrl-C":         {{syscall.SIGTERM, 0, sigFirst}, {os.Interrupt, time.Millisecond, sigAgain}},
	} {
		var s signals
		began := time.Now()
		for i, x := range seq {
			if got := s.take(x.sig, began.Add(x.at)); got != x.want {
				t.Errorf("%s: signal %d is taken as %d, want %d", name, i, got, x.want)
			}
		}
	}
}
