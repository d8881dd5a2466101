package reproduce

import (
	"testing"
	"time"
)

// The last workers die first, and each once.
func TestDying(t *testing.T) {
	t.Parallel()
	want := "kill(rank=w4,at=1s)+kill(rank=w3,at=1s)+kill(rank=w2,at=2s)+kill(rank=w1,at=2s)"
	if got := dying(5, 2, time.Second, 2*time.Second).String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
