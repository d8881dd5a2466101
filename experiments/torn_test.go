package experiments

import (
	"testing"
	"time"

	"github.com/gradlab/gradlab/internal/patience"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// The counts of two shards whose workers were killed, one of them between the halves of
// a push: before, the half that is missing was defined away.
func TestF2TornPushesAreCounted(t *testing.T) {
	t.Parallel()
	server := func(shard int, taken ...uint64) record.RankReport {
		sum := uint64(0)
		for _, n := range taken {
			sum += n
		}
		rep := record.RankReport{Rank: 4 + shard, Role: "server", Shard: shard, Taken: taken}
		rep.Ledger.Applied = sum
		return rep
	}
	job, err := mustRuns(t, small, "policy=asp", "mode=server", "servers=2", "workers=4")[0].Build(config.Places{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := &train.Observer{Job: job, Reports: []record.RankReport{
		{Rank: 0, Role: "worker", Sent: 2 * 505}, server(0, 505, 20, 28, 48), server(1, 505, 19, 28, 48),
	}}
	r := ResultOf(o)
	if l := r.Ledger; l.Torn != 1 || l.Lost != 1 || l.Sent != l.Applied+l.Rejected+l.Lost || len(r.Lost) != 1 {
		t.Errorf("%+v, lost %q", l, r.Lost)
	}
	o.Reports[1].PastOf, o.Reports[1].Past = []uint64{0, 7, 0, 0}, 7
	o.Reports[1].Ledger.Applied += 7
	o.Reports[2].PastOf, o.Reports[2].Past = []uint64{0, 0, 9, 0}, 9
	o.Reports[2].Ledger.Applied += 9
	if l := ResultOf(o).Ledger; l.Torn != 1+7+9 || l.Sent != l.Applied+l.Rejected+l.Lost {
		t.Errorf("with an earlier leg: %+v", l)
	}
}

// Whenever workers die, what shards have of them differs by no more than what the
// ledger calls torn, and some instants tear a push.
func TestF2LedgerOfTheTorn(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	set := []string{"data=digits", "model=logistic", "workers=4", "epochs=0", "batch=8", "mode=server", "policy=asp", "servers=2", "overlap=buckets", "steps=80", "device.flops=1M", "network.latency=100us"}
	whole := mustExecute(t, set...)
	tore := 0
	for i := range 24 {
		at := time.Duration(whole.VirtualSeconds * (0.2e9 + 0.02e9*float64(i)))
		r := mustExecute(t, append(set, deaths(4, at, at, at))...)
		want, servers := uint64(0), [2][]uint64{}
		for _, rep := range r.Ranks {
			if rep.Role == "server" {
				servers[rep.Shard] = rep.Taken
			}
		}
		for w := 1; w < 4; w++ { // worker 0 lives
			a, b := servers[0][w], servers[1][w]
			want += max(a, b) - min(a, b)
		}
		if l := r.Ledger; l.Torn != want || l.Lost < want || l.Sent != l.Applied+l.Rejected+l.Lost {
			t.Errorf("deaths at %v: %+v, and shards took %v", at, l, servers)
		}
		if want > 0 {
			tore++
		}
	}
	if tore == 0 {
		t.Error("no death tore a push: the test tests nothing")
	}
}
