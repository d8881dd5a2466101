package nemesis_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/internal/rng"
)

var world = nemesis.World{Workers: 4, Servers: 2, Key: rng.New(1, "faults")}

// every is every kind of fault, with every option away from its default.
var every = []string{
	"kill(rank=s1,at=2s)",
	"rejoin(rank=w1,at=3s)",
	"pause(rank=w3,at=1.5s,for=300ms)",
	"partition(of=[w0,w1],from=[s*],one_way=true,at=1s,for=2s)",
	"loss(share=0.05,from=[w0],to=[s0,observer],at=1s,for=2s)",
	"duplicate(share=0.5,from=[w*],to=[w2],at=1s,for=2s)",
	"reorder(share=0.25,by=3ms,from=[*],to=[s1],at=1s,for=2s)",
	"delay(by=50ms,jitter=5ms,from=[w1],to=[w0],at=1s,for=2s)",
	"slow(times=3,from=[w1],to=[w0],at=1s,for=2s)",
	"resend(share=0.5,from=[w1],to=[s0],at=1s,for=2s)",
	"poisson(every=1s,of=[kill,one_way],ranks=[w*,s0],for=3s,from=1s,until=1m0s,seed=7)",
	"leave(rank=w1,before=40,turn=1)",
	"join(rank=w3,before=0,turn=2)",
}

// Schedules are read from what they print, law and drawn faults alike, and no option of
// any fault is left out of the test.
func TestText(t *testing.T) {
	var all nemesis.Schedule
	for _, text := range append(every, nemesis.None) {
		s, err := nemesis.Parse(text)
		if err != nil || s.String() != text {
			t.Errorf("%q is printed as %q, %v", text, s, err)
		}
		all = append(all, s...)
	}
	if left := nemesis.Faults.Untried(all...); len(left) > 0 {
		t.Errorf("not tried: %v", left)
	}
	drawn, err := all.Drawn(world)
	if err != nil {
		t.Fatal(err)
	}
	again, err := nemesis.Parse(drawn.String())
	if err != nil || !reflect.DeepEqual(again, drawn) {
		t.Errorf("%v is read as %v, %v", drawn, again, err)
	}
	was, err1 := drawn.Plan(world)
	is, err2 := again.Plan(world)
	if err1 != nil || err2 != nil || !reflect.DeepEqual(was, is) || len(was) < 40 {
		t.Errorf("%d faults, then %d, %v, %v", len(was), len(is), err1, err2)
	}
}

// FuzzParse: whatever is read prints as text that is read as the same.
func FuzzParse(f *testing.F) {
	for _, text := range append(every, "kill+pause", "kill(w0,at=1s)+", "[", `kill("w0",at=1s)`) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := nemesis.Parse(text)
		if err != nil {
			return
		}
		again, err := nemesis.Parse(s.String())
		if err != nil || again.String() != s.String() {
			t.Errorf("%q is %v, then %v, %v", text, s, again, err)
		}
		if len(s) < 20 { // laws of any size are drawn elsewhere
			for _, one := range s {
				if _, law := one.(nemesis.Poisson); !law {
					_, _ = s[:1].Plan(world)
				}
			}
		}
	})
}

// The law draws as many faults as it says, on whom and of what kind it says, the same from
// the same seed and others from another.
func TestPoisson(t *testing.T) {
	law := nemesis.Poisson{Every: time.Second, Of: []string{"kill", "pause"}, Ranks: []string{"w1", "w2"}, For: time.Second, From: time.Hour, Until: 2 * time.Hour}
	draw := func(law nemesis.Poisson, w nemesis.World) []nemesis.Act {
		plan, err := nemesis.Schedule{law}.Plan(w)
		if err != nil {
			t.Fatal(err)
		}
		return plan
	}
	plan := draw(law, world)
	if n := len(plan); n < 3600-180 || n > 3600+180 { // three standard deviations
		t.Errorf("%d faults in an hour, one a second", n)
	}
	kills, ones := 0, 0
	for _, a := range plan {
		if a.At < time.Hour || a.At > 2*time.Hour || a.Rank != 1 && a.Rank != 2 {
			t.Fatalf("%+v", a)
		}
		if a.What == nemesis.Killing {
			kills++
		}
		ones += 2 - a.Rank
	}
	if n := len(plan) / 2; kills < n-100 || kills > n+100 || ones < n-100 || ones > n+100 {
		t.Errorf("%d of %d are kills, %d on w1", kills, len(plan), ones)
	}
	if !reflect.DeepEqual(draw(law, world), plan) {
		t.Error("the same seed draws other faults")
	}
	other := world
	other.Key = rng.New(2, "faults")
	if reflect.DeepEqual(draw(law, other), plan) {
		t.Error("another seed draws the same faults")
	}
	law.Seed = 5
	one, err1 := nemesis.Schedule{law}.Drawn(world)
	two, err2 := nemesis.Schedule{law}.Drawn(other)
	if err1 != nil || err2 != nil || !reflect.DeepEqual(one, two) {
		t.Error("with a seed of its own the run's seed matters")
	}
}

// Minimise finds the least part of a schedule that still does it.
func TestMinimise(t *testing.T) {
	law := nemesis.Schedule{nemesis.Poisson{Every: time.Second, Of: []string{"kill", "pause", "delay"}, Ranks: []string{"w*"}, For: time.Second, Until: 3 * time.Minute}}
	all, err := law.Drawn(world)
	if err != nil {
		t.Fatal(err)
	}
	var needs nemesis.Schedule
	for _, i := range []int{3, 70, len(all) - 1} {
		needs = append(needs, all[i])
	}
	tries := 0
	least := nemesis.Minimise(all, func(s nemesis.Schedule) bool {
		tries++
		for _, f := range needs {
			if !slices.ContainsFunc(s, func(o nemesis.Fault) bool { return reflect.DeepEqual(o, f) }) {
				return false
			}
		}
		return true
	})
	if !reflect.DeepEqual(least, needs) || tries > 300 {
		t.Errorf("after %d tries %v, want %v", tries, least, needs)
	}
	if got := nemesis.Minimise(all, func(s nemesis.Schedule) bool { return true }); len(got) != 0 {
		t.Errorf("what fails without any fault is blamed on %v", got)
	}
	// A fault that may be shorter becomes so.
	long := nemesis.Schedule{nemesis.Pause{Rank: "w0", At: time.Second, For: 64 * time.Second}}
	short := nemesis.Minimise(long, func(s nemesis.Schedule) bool { return len(s) == 1 && s[0].(nemesis.Pause).For >= 10*time.Second })
	if f := short[0].(nemesis.Pause).For; f < 10*time.Second || f > 20*time.Second {
		t.Errorf("a pause of 10 s would do, and %v is left", f)
	}
}
