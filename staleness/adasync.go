package staleness

import (
	"fmt"
	"math"
)

// AdaSync (Dutta et al. 2020) is one of the four K-rules with a k that grows as
// the loss falls: many cheap updates at first, few precise ones at the end.
//
//	k_t = min(P, round(k·√(F(w_0)/F(w_t))))
//
// with P the workers.
//
// Departures: the paper sets k anew every so many seconds from the loss on the
// whole training set; here it follows the mean training loss of the latest
// pushes. And it derives this root for K-async and the batch forms; for ksync it
// is used as it is.
//
// How many samples an update holds is not known beforehand: key epochs counts
// with the first k, so that a run ends early; better set steps.
//
// Tuning: k small, as 1 or 2: it is where the run begins; compare at equal time.
//
// Cost: up to k held gradients, and k grows.
type AdaSync struct {
	K  int    `doc:"k at the beginning, at least 1"`
	Of string `doc:"the rule: ksync, kbatchsync, kasync or kbatchasync"`
}

var _ = Policies.Add("adasync", "K-rules whose k grows as the loss falls", AdaSync{K: 1, Of: "kbatchasync"})

// Validate checks the options.
func (o AdaSync) Validate() error {
	if err := atLeastOne("k", o.K); err != nil {
		return err
	}
	if o.rule(1) == nil {
		return fmt.Errorf("option %q is %q; want ksync, kbatchsync, kasync or kbatchasync", "of", o.Of)
	}
	return nil
}

// rule is the policy for one k, nil for an unknown name.
func (o AdaSync) rule(k int) Policy {
	switch o.Of {
	case "ksync":
		return ksync{k: k}
	case "kbatchsync":
		return kbatchsync{k: k}
	case "kasync":
		return kasync{k: k}
	case "kbatchasync":
		return softsync{c: k}
	}
	return nil
}

// New makes the Policy.
func (o AdaSync) New(workers int) (Policy, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return serve(workers, adasync{o, workers})
}

// Traits implements Spec. Early updates take K gradients; later ones more.
func (o AdaSync) Traits(workers int) PolicyTraits {
	batch, sync := o.Of == "kbatchsync" || o.Of == "kbatchasync", o.Of == "ksync" || o.Of == "kbatchsync"
	return PolicyTraits{PerUpdate: min(o.K, workers), Waits: !batch, Drops: sync, Voids: sync, ByLoss: true}
}

type adasync struct {
	spec    AdaSync
	workers int
}

// now is the rule with the present k.
func (p adasync) now(v View) Policy {
	k := float64(p.spec.K)
	if v.Loss > 0 {
		k = math.Round(k * math.Sqrt(v.First/v.Loss))
	}
	return p.spec.rule(int(max(1, min(k, float64(p.workers)))))
}

func (p adasync) Admit(v View, w int) Verdict { return p.now(v).Admit(v, w) }

func (p adasync) Flush(v View) bool { return p.now(v).Flush(v) }

func (p adasync) Release(v View, w int) bool { return p.now(v).Release(v, w) }

func (p adasync) Cancel(v View) []int { return p.now(v).Cancel(v) }
