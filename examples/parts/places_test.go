package parts

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/compress/compresstest"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/staleness"
)

// shelf keeps the data set open between configurations.
var shelf = &config.Shelf{}

// build makes the job of a configuration: keys and values laid over the defaults.
func build(keys map[string]string) (*train.Job, error) {
	c := config.Default()
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if err := c.Set(key, keys[key]); err != nil {
			return nil, err
		}
	}
	return config.Run{Config: c}.Build(config.Places{Shelf: shelf}, nil)
}

// at is a place where a part is taken: keys of a configuration that leave one out.
func at(keys ...string) map[string]string {
	m := map[string]string{"device.codec": "free", "steps": "40", "model": "mlp(hidden=[16])"}
	for _, kv := range keys {
		key, value, _ := strings.Cut(kv, "=")
		m[key] = value
	}
	return m
}

func with(place map[string]string, key, value string) map[string]string {
	m := maps.Clone(place)
	m[key] = value
	return m
}

// modes are configurations in which every mode is taken with raw codecs.
func modes(t *testing.T) map[string]map[string]string {
	m := map[string]map[string]string{}
	for _, name := range train.Modes.Names() {
		m[name] = at("mode=" + name)
		switch name {
		case "downpour":
			m[name]["policy"] = "asp"
		case "hogwild":
			m[name]["net"] = "local"
		}
		if _, err := build(m[name]); err != nil {
			t.Errorf("mode %s: %v", name, err)
		}
	}
	m["server, asp"] = at("mode=server", "policy=asp", "servers=2")
	return m
}

// A codec is taken or refused, as codec and as down_codec of every mode, as gradlab's own
// of the same kind is, and never by its name. Where gradlab's own are refused for a
// memory, so is a memory of ours, however it is wrapped.
func TestCodecsEverywhere(t *testing.T) {
	refusals := 0
	for mode, place := range modes(t) {
		for _, key := range []string{"codec", "down_codec"} {
			for ours, theirs := range map[string]string{
				"leftover":                                 "strom",
				"shuffle(leftover)":                        "entropy(strom)",
				"accumulate(leftover,every=2)":             "accumulate(strom,every=2)",
				"bysize(leftover,raw,limit=1)":             "bysize(strom,raw,limit=1)",
				"shuffle(topk(keep=0.1))":                  "entropy(topk(keep=0.1))",
				"shuffle(raw)":                             "entropy(topk(keep=0.1))",
				"feedback(shuffle(topk(keep=0.1)))":        "feedback(topk(keep=0.1))",
				"shuffle(feedback(topk,unchecked=true))":   "entropy(feedback(topk,unchecked=true))",
				"feedback(leftover)":                       "feedback(strom)",
				"feedback(leftover,unchecked=true)":        "feedback(strom,unchecked=true)",
				"byrole(shuffle(leftover),raw,raw)":        "byrole(strom,raw,raw)",
				"bysize(shuffle(raw),leftover,limit=1000)": "bysize(topk,strom,limit=1000)",
			} {
				_, own := build(with(place, key, ours))
				_, like := build(with(place, key, theirs))
				if (own == nil) != (like == nil) {
					t.Errorf("mode %s, %s: %s gives %v, %s gives %v", mode, key, ours, own, theirs, like)
				}
				if like == nil {
					continue
				}
				for _, why := range []string{"without memory", "is no contraction", "must be raw", "averages parameters", "has no servers", "sends nothing"} {
					if strings.Contains(like.Error(), why) && !strings.Contains(own.Error(), why) {
						t.Errorf("mode %s, %s: %s is refused by %v, %s by %v", mode, key, ours, own, theirs, like)
					}
				}
				if strings.Contains(own.Error(), "without memory") {
					refusals++
				}
			}
		}
	}
	if refusals < 20 {
		t.Errorf("%d places refuse a memory, want more", refusals)
	}
}

// Some of that in so many words.
func TestCodecsInPlaces(t *testing.T) {
	for _, c := range []struct {
		place map[string]string
		want  string // "" takes it
	}{
		{at("codec=leftover"), ""},
		{at("mode=reduce", "codec=leftover"), ""},
		{at("mode=gather", "codec=shuffle(leftover)"), ""},
		{at("mode=localsgd", "codec=leftover"), ""},
		{at("mode=rudra", "codec=leftover"), ""},
		{at("mode=downpour", "policy=asp", "codec=leftover"), ""},
		{at("mode=choco", "codec=shuffle(topk(keep=0.1))"), ""},
		{at("down_codec=shuffle(topk(keep=0.1))"), ""},
		{at("down_codec=leftover"), "without memory"},
		{at("policy=asp", "down_codec=shuffle(leftover)"), "without memory"},
		{at("mode=choco", "codec=leftover"), "without memory"},
		{at("mode=easgd", "codec=shuffle(leftover)"), "without memory"},
		{at("mode=easgd", "down_codec=leftover"), "without memory"},
		{at("codec=feedback(leftover)"), "is no contraction"},
		{at("codec=shuffle(ef21(topk(keep=0.1)))"), "cannot stand inside"},
		{at("mode=reduce", "codec=shuffle(ef21(topk(keep=0.1)))"), "cannot stand inside"},
	} {
		_, err := build(c.place)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want …%s…", c.place, err, c.want)
		}
	}
}

// An optimizer with a momentum is taken or refused beside every corrector as gradlab's own
// is, and without its momentum as sgd is.
func TestOptimizersEverywhere(t *testing.T) {
	refusals := 0
	for _, name := range staleness.Correctors.Names() {
		for _, place := range []map[string]string{at("policy=asp", "corrector="+name), at("policy=bounded", "corrector="+name), at("corrector=" + name)} {
			for ours, theirs := range map[string]string{"ball": "momentum", "ball(beta=0)": "sgd", "chain(decay,ball)": "chain(decay,momentum)", "groups(on(ball,roles=[bias]),sgd)": "groups(on(momentum,roles=[bias]),sgd)"} {
				_, own := build(with(place, "optimizer", ours))
				_, like := build(with(place, "optimizer", theirs))
				if (own == nil) != (like == nil) || own != nil && strings.Contains(own.Error(), "its own momentum") != strings.Contains(like.Error(), "its own momentum") {
					t.Errorf("%s, %s: %s gives %v, %s gives %v", place["policy"], name, ours, own, theirs, like)
				}
				if own != nil && strings.Contains(own.Error(), "its own momentum") {
					refusals++
				}
			}
		}
	}
	if refusals < 15 {
		t.Errorf("%d places refuse a second momentum, want more", refusals)
	}
}

// A policy is taken or refused in every mode, with every corrector, as one of gradlab's
// own with the same traits is.
func TestPoliciesEverywhere(t *testing.T) {
	taken, refused := 0, 0
	compare := func(place map[string]string) {
		_, own := build(with(place, "policy", "half"))
		_, like := build(with(place, "policy", "kasync(k=2)"))
		switch {
		case (own == nil) != (like == nil):
			t.Errorf("%v: half gives %v, kasync %v", place, own, like)
		case own == nil:
			taken++
		default:
			refused++
		}
	}
	for _, place := range modes(t) {
		compare(place)
	}
	for _, name := range staleness.Correctors.Names() {
		compare(at("corrector=" + name))
	}
	if taken < 10 || refused < 10 {
		t.Errorf("half is taken in %d places and refused in %d, want more", taken, refused)
	}
}

// A corrector is taken or refused in every mode and under every policy as one of gradlab's
// own with the same traits is, and beside every optimizer.
func TestCorrectorsEverywhere(t *testing.T) {
	taken, refused := 0, 0
	compare := func(place map[string]string) {
		_, own := build(with(place, "corrector", "smooth"))
		_, like := build(with(place, "corrector", "multi_asgd"))
		switch {
		case (own == nil) != (like == nil):
			t.Errorf("%v: smooth gives %v, multi_asgd %v", place, own, like)
		case own == nil:
			taken++
		default:
			refused++
		}
	}
	for mode, place := range modes(t) {
		if mode == "server, asp" {
			for _, name := range sgd.Optimizers.Names() {
				compare(with(place, "optimizer", name))
			}
			for _, name := range staleness.Policies.Names() {
				compare(with(place, "policy", name))
			}
		}
		compare(place)
	}
	if taken < 10 || refused < 10 {
		t.Errorf("smooth is taken in %d places and refused in %d, want more", taken, refused)
	}
}

// Liars: the same parts with their claims taken away are refused where a run would
// diverge, as the engine looks for itself.

type quiet struct{ Leftover }

func (f quiet) Claims(b compress.Block) compress.Claims {
	c := f.Leftover.Claims(b)
	c.Remembers = false
	return c
}

type hidden struct{ in compress.Family }

func (f hidden) New(b compress.Block) (compress.Codec, error) { return f.in.New(b) }

type careless struct{ Smooth }

func (careless) Traits() staleness.CorrectorTraits {
	return staleness.CorrectorTraits{Amends: true}
}

type hasty struct{ Half }

func (hasty) Traits(workers int) staleness.PolicyTraits {
	return staleness.PolicyTraits{PerUpdate: half(workers)}
}

type still struct{ Ball }

func (still) Momentous() bool { return false }

func TestLiars(t *testing.T) {
	quiet := quiet{Leftover{N: 16}}
	for _, liar := range []compress.Family{quiet, hidden{Leftover{N: 16}}, Shuffle{In: quiet}, compress.BySize{Large: hidden{quiet}, Small: compress.Raw{}, Limit: 1}} {
		for key, place := range map[string]map[string]string{"down_codec": at(), "codec": at("mode=choco"), "codec ": at("mode=easgd")} {
			job, err := build(place)
			if err != nil {
				t.Fatal(err)
			}
			if job.Codec = liar; key == "down_codec" {
				job.Codec, job.DownCodec = compress.Raw{}, liar
			}
			if err := job.Check(); err == nil || !strings.Contains(err.Error(), "without memory") {
				t.Errorf("%T as %s: %v", liar, key, err)
			}
		}
	}
	if failed := compresstest.Failures(quiet); failed["memory"] == nil {
		t.Error("the suite does not see the memory")
	}
	job, err := build(at("policy=asp", "corrector=dana"))
	if err != nil {
		t.Fatal(err)
	}
	for _, liar := range []sgd.Optimizer{still{Ball{Beta: 0.9}}, sgd.Chain{Parts: []sgd.Optimizer{sgd.Decay{Rate: 1e-4}, still{Ball{Beta: 0.9}}}}} {
		if job.Optimizer = liar; job.Check() == nil || !strings.Contains(job.Check().Error(), "its own momentum") {
			t.Errorf("%T: %v", liar, job.Check())
		}
	}
	if job, err = build(at("policy=asp", "optimizer=ball")); err != nil {
		t.Fatal(err)
	}
	if job.Corrector = (careless{Smooth{Beta: 0.5}}); job.Check() == nil || !strings.Contains(job.Check().Error(), "Momentum") {
		t.Errorf("a corrector that hides its momentum: %v", job.Check())
	}
	if job, err = build(at("mode=downpour", "policy=asp")); err != nil {
		t.Fatal(err)
	}
	if job.Policy = (hasty{}); job.Check() == nil || !strings.Contains(job.Check().Error(), "Waits") {
		t.Errorf("a policy that hides that it waits: %v", job.Check())
	}
}

// sink hears how a run goes.
type sink struct{}

func (sink) Progress(record.Progress)                {}
func (sink) Eval(record.Eval)                        {}
func (sink) Checkpoint(int, *checkpoint.State) error { return nil }

// What is taken learns, and does not diverge.
func TestWhatIsTakenLearns(t *testing.T) {
	for _, place := range []map[string]string{
		at("codec=leftover(n=200)"),
		at("codec=shuffle(leftover(n=200))", "optimizer=ball", "mode=reduce"),
		at("down_codec=shuffle(topk(keep=0.1))", "optimizer=ball"),
		at("mode=choco", "codec=shuffle(topk(keep=0.3))"),
		at("policy=half", "codec=leftover(n=200)", "optimizer=ball"),
		at("policy=asp", "corrector=smooth"),
	} {
		job, err := build(with(place, "steps", "150"))
		if err != nil {
			t.Fatal(err)
		}
		if err := learn(job); err != nil {
			t.Errorf("%v: %v", place, err)
		}
	}
}

func learn(job *train.Job) error {
	observer := &train.Observer{Job: job, Sink: sink{}}
	programs, err := job.Programs(observer)
	if err != nil {
		return err
	}
	if err := (&sim.Net{}).Run(context.Background(), programs); err != nil {
		return err
	}
	if loss := observer.Final.Values["loss"]; !(observer.Final.Values["accuracy"] > 0.6) || math.IsInf(loss, 0) {
		return fmt.Errorf("accuracy %v, loss %v", observer.Final.Values["accuracy"], loss)
	}
	return nil
}
