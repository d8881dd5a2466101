package train_test

import (
	"math"
	"testing"
	"time"

	"github.com/gradlab/gradlab/internal/patience"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// priced bills 1 µs for making a payload of any block and 2 µs for decoding one, at
// servers 3 and 4; raw costs as much.
func priced(j *train.Job) {
	j.Timing.Codec = func(c timing.Coding) time.Duration {
		d := time.Microsecond
		if c.Server {
			d = 3 * time.Microsecond
		}
		if c.Decode {
			d += time.Microsecond
		}
		return d
	}
}

// Workers of every mode are billed for what they encode and decode, and the parts
// of their time still add up.
func TestEveryModeBillsCodecs(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, opts := range map[string][]option{
		"server":         {with("sign"), down("bf16")},
		"server, parts":  {with("sign"), down("bf16"), func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 500} }},
		"server, asp":    {with("sign"), down("bf16"), policy("asp"), learning(0.01)},
		"reduce":         {with("bf16"), mode("reduce")},
		"gather":         {with("raw"), mode("gather")},
		"rudra":          {with("sign"), down("bf16"), mode("rudra(tree=2)"), workers(8), policy("softsync(n=2)"), learning(0.01)},
		"rudra, threads": {with("sign"), down("bf16"), mode("rudra(tree=2,threads=true)"), workers(8), policy("softsync(n=2)"), learning(0.01)},
		"downpour":       {with("sign"), down("bf16"), mode("downpour"), policy("asp"), learning(0.01)},
		"beside":         {with("sign"), down("bf16"), mode("downpour"), policy("asp"), learning(0.01), func(j *train.Job) { j.Overlap = train.Buckets{} }},
		"sandblaster":    {with("bf16"), down("bf16"), mode("sandblaster"), optimizer("sgd")},
		"easgd":          {with("bf16"), down("bf16"), mode("easgd"), policy("asp"), learning(0.01)},
		"localsgd":       {with("bf16"), mode("localsgd")},
		"dpsgd":          {with("bf16"), mode("dpsgd"), graph("ring")},
		"sgp":            {with("bf16"), mode("sgp"), graph("ring")},
		"agp":            {with("bf16"), mode("agp"), graph("ring"), learning(0.01)},
		"adpsgd":         {with("bf16"), mode("adpsgd"), graph("ring"), learning(0.01)},
		"choco":          {with("sign"), mode("choco"), graph("ring")},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := runOn(t, simulated(0), job(t, append(opts, priced)...), nil)
			for _, r := range o.Reports {
				x := r.Spent()
				if sum := x.Busy() + x.Rest; math.Abs(sum-r.Seconds) > 1e-6 {
					t.Errorf("rank %d: %+v is %g s, not %g", r.Rank, x, sum, r.Seconds)
				}
				// Who receives what others pushed may decode beside its own work.
				if r.Role == "worker" && r.Steps > 0 && (x.Encode <= 0 || x.Decode <= 0 && name != "agp") {
					t.Errorf("rank %d: %+v", r.Rank, x)
				}
				if r.Role == "server" && x.Decode <= 0 {
					t.Errorf("server %d: %+v", r.Rank, x)
				}
			}
		})
	}
}

// A server bills each piece of a push as the codec's price says, or the payload's
// bytes where a rate is stated for that, and never both; and it encodes parameters
// once a version, however many workers it has.
func TestServersBillOnce(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	var bytes float64
	for _, apply := range []float64{0, 1e9} {
		j := job(t, with("sign"), down("bf16"), priced, func(j *train.Job) { j.Timing.Apply = apply })
		pieces := float64(len(j.Model.Layout().Spans))
		o, _ := runOn(t, simulated(0), j, nil)
		for _, r := range o.Reports {
			if r.Role != "server" {
				continue
			}
			pushes, updates := float64(r.Ledger.Applied), float64(r.Version)
			bytes = 0
			for _, n := range r.Traffic.RecvBytes {
				bytes += float64(n)
			}
			want := 4e-6 * pieces * pushes
			if apply > 0 {
				want = bytes / apply
			}
			if x := r.Spent(); math.Abs(x.Decode-want) > 1e-3*want {
				t.Errorf("apply at %g: %d pushes took %g s, want %g", apply, r.Ledger.Applied, x.Decode, want)
			}
			// The last version is sent to nobody, or the first was there already.
			if x, most := r.Spent(), 3e-6*pieces*(updates+1); x.Encode <= 0 || x.Encode > most*1.001 {
				t.Errorf("%d versions took %g s to encode, want at most %g", r.Version, x.Encode, most)
			}
		}
	}
}

// What is not made costs nothing: sums of raw gradients where they lie, and
// payloads that are the gradient's memory.
func TestRawInPlaceIsFree(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for _, opts := range [][]option{{mode("reduce")}, {mode("reduce"), func(j *train.Job) { j.Overlap = train.Buckets{} }}} {
		o, _ := runOn(t, simulated(0), job(t, append(opts, priced)...), nil)
		for _, r := range o.Reports {
			if x := r.Spent(); x.Encode+x.Decode != 0 {
				t.Errorf("rank %d: %+v", r.Rank, x)
			}
		}
	}
	o, _ := runOn(t, simulated(0), job(t, priced), nil)
	for _, r := range o.Reports {
		x := r.Spent()
		if r.Role == "worker" && x.Encode+x.Decode != 0 || r.Role == "server" && (x.Encode != 0 || x.Decode <= 0) {
			t.Errorf("rank %d: %+v", r.Rank, x)
		}
	}
}

// A gathered payload is decoded at a flat rate of what it holds, not of the gradient it
// was made of: eight payloads of 1 % of the values cost less than encoding one.
func TestGatheredPayloadsAreBilledBySize(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	const rate = 1e8
	for _, spec := range []string{"topk(keep=0.01,index=raw32)", "sign"} {
		j := job(t, with(spec), mode("gather"), workers(8), func(j *train.Job) { j.Timing.Codec = timing.FlatRate(rate) })
		size := 0.0
		for _, s := range j.Model.Layout().Spans {
			claims, _ := compress.ClaimsOf(j.Codec, compress.Block{Name: s.Name, Role: s.Role.String(), Rows: s.Rows, Cols: s.Cols, World: 8, Peer: -1})
			size += float64(claims.Size)
		}
		o, _ := runOn(t, simulated(0), j, nil)
		for _, r := range o.Reports {
			if r.Role != "worker" {
				continue
			}
			if got, want := r.Spent().Decode, float64(r.Steps)*8*size/rate; math.Abs(got/want-1) > 0.01 {
				t.Errorf("%s, rank %d decoded for %g s, want %g for 8 payloads of %g bytes a step", spec, r.Rank, got, want, size)
			}
		}
	}
}
