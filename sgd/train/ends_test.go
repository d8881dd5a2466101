package train_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
)

// apartIn lists the receiving ends in a checkpoint that are at another estimate than their
// sender, of a codec whose ends keep the same one, and counts those that are not.
func apartIn(st *checkpoint.State) (list []string, alike int) {
	for name, got := range st.Bytes {
		parts := strings.Split(name, "/")
		if len(parts) < 5 || parts[0] != "codec" || parts[1] != "in" && parts[1] != "relay" {
			continue // no receiving end: a relay's own has no child in its name
		}
		by, child, block := parts[2], parts[3], strings.Join(parts[3:], "/")
		sent, ok := st.Bytes["codec/relay/"+block]
		if !ok || parts[1] == "relay" && by == child { // the learner beside its relay
			sent = st.Bytes["codec/up/"+block]
		}
		if bytes.Equal(got, sent) {
			alike++
		} else {
			list = append(list, name)
		}
	}
	return list, alike
}

// After a resume a worker that had died begins anew, and so do the ends at which others
// receive what it sends, where those keep something: in every checkpoint both ends of all
// are at the same estimate.
func TestBothEndsBeginAnewAfterADeath(t *testing.T) {
	t.Parallel()
	ways := map[string][]option{}
	for _, m := range []string{"server", "downpour(n_fetch=2,n_push=2)", "rudra", "rudra(tree=2)"} {
		for _, p := range []string{"asp", "ssp(slack=1)", "softsync(n=2)"} {
			opts := []option{mode(m), policy(p), servers(2), with("ef21(topk(keep=0.3))"), func(j *train.Job) { j.Updates, j.EvalEvery, j.CheckpointEvery = 96, 20, 4 }}
			if unchecked(opts...).Check() == nil {
				ways[m+"/"+p] = opts
			}
		}
	}
	for name, opts := range ways {
		if leftOut(name, 4) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
			n := faulty(t, fmt.Sprintf("kill(w3,at=%v)", seconds(0.4*whole.Final.Seconds)))
			_, s := runOn(t, n, job(t, opts...), nil)
			without, checked := 0, 0
			for _, at := range slices.Sorted(maps.Keys(s.states)) {
				st := s.states[at]
				if _, lived := st.Ints["step/3"]; lived {
					continue
				}
				without++
				o, again := runOn(t, simulated(seconds(float64(st.Ints["nanoseconds"])/1e9)), job(t, opts...), st)
				checkOpen(t, o)
				for later, st := range again.states {
					list, alike := apartIn(st)
					if checked += alike; len(list) > 0 {
						t.Errorf("resumed at update %d, at %d apart: %v", at, later, list)
					}
				}
			}
			if without == 0 || checked == 0 {
				t.Errorf("%d checkpoints without worker 3, and %d ends compared in those that follow", without, checked)
			}
		})
	}
}
