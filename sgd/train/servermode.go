package train

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd/train/wire"
	"github.com/gradlab/gradlab/staleness"
)

// Server is the parameter-server mode with push and pull in one exchange: a
// worker pushes the gradient of a step to every shard, and the answer to a push
// is the next parameters. When the answer comes is the policy's business: bsp
// holds it until all have pushed, asp answers at once.
//
// With overlap a push leaves in parts of about bucket bytes, as the backward pass
// makes them, and its answer comes in the same parts, first layers first.
//
// With Barrier a push is answered without parameters, and a worker asks for them
// once all shards have answered: what TensorFlow's synchronous replicas do, whose
// tokens come when every variable has been updated. It costs a round trip.
//
// Rule: w ← w − rate·direction(mean of the gradients that the policy lets
// through).
//
// Paper: none of its own; the policies have theirs.
//
// Tuning: as many servers as the network needs, placement=balanced;
// overlap=buckets.
//
// Cost: a gradient up and parameters down a step and worker, all through the
// servers' NICs.
type Server struct{ Barrier bool }

var _ = Modes.Add("server", "parameter servers; a push is answered with the next parameters", Server{})

// Traits implements Mode.
func (m Server) Traits(j *Job) Traits {
	together := j.synchronous()
	return Traits{Servers: j.served(), PerUpdate: j.policy().PerUpdate, Acked: m.Barrier,
		Timeless: together, Outlives: !together, Elastic: together && !m.Barrier, Admits: !together, Weightless: true, Steady: true,
		Codec: TakesAll, Down: TakesForgetful, Heeds: serverHeeds, Refuses: serverRefuses}
}

var (
	serverHeeds   = []string{"servers", "placement", "policy", "corrector", "down_codec", "overlap"}
	serverRefuses = map[string]string{"down_codec": WhyForgetful}
)

// WhyForgetful is why parameters travel through codecs without memory only.
const WhyForgetful = "the next difference makes up for what the codec leaves out, and a codec that keeps it would add it a second time, until the parameters diverge; use the codec inside by itself, or one without memory (feedback permits it with unchecked=true)"

// Check implements Mode.
func (m Server) Check(j *Job) error {
	if m.Barrier && j.policy().Voids {
		return fmt.Errorf("policy %s sends parameters unasked, which barrier=true does not; use mode server", staleness.Policies.Spec(j.Policy))
	}
	if j.Plan().Beside && j.policy().Voids {
		return fmt.Errorf("policy %s cancels gradients that are being computed, of which with overlap a part has left already; use overlap=none", staleness.Policies.Spec(j.Policy))
	}
	if (j.LogOrder || j.Replay != nil) && j.Servers > 1 && j.policy().Voids {
		return fmt.Errorf("policy %s cancels gradients, and with several servers the order of their words is not all that counts: order_log needs servers=1", staleness.Policies.Spec(j.Policy))
	}
	return checkServers(j)
}

// shards are the shards of a job with servers, cut into parts.
func (j *Job) shards() []*wire.Shard {
	sh := wire.Shards(j.Model.Layout(), j.Cuts())
	if p := j.Plan(); p.Beside && j.Traits().PerPush == 0 {
		for _, s := range sh {
			s.Cut(p.Bytes)
		}
	}
	return sh
}

// Part implements Mode.
func (Server) Part(r *Rank) (Part, error) {
	if sh := r.job.shards(); r.rank < r.job.Workers {
		return newWorker(r, sh)
	} else {
		return newServer(r, sh)
	}
}

// checkServers builds the parts of a server job once, so that what cannot work
// is refused before anything starts.
func checkServers(j *Job) error {
	sh := j.shards()
	if _, err := newServer(NewRank(j, j.Workers), sh); err != nil {
		return err
	}
	_, err := newWorker(NewRank(j, 0), sh)
	return err
}
