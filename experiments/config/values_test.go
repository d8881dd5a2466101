package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data"
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/profile"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/timing"
	"github.com/gradlab/gradlab/staleness"
)

func TestValues(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"raw,topk(keep=0.01,index=rice)":           "raw topk(keep=0.01,index=rice)",
		"range(1,4)":                               "1 2 3 4",
		"range(9007199254740990,9007199254740992)": "9007199254740990 9007199254740991 9007199254740992",
		"lin(1234567890123,1234567890125,3)":       "1234567890123 1234567890124 1234567890125",
		"range(0,1,0.25)":                          "0 0.25 0.5 0.75 1",
		"range(0,0.3,0.1)":                         "0 0.1 0.2 0.3",
		"double(1,16),24":                          "1 2 4 8 16 24",
		"double(3,13)":                             "3 6 12",
		"log(1e-4,0.1,4)":                          "0.0001 0.001 0.01 0.1",
		"choice(a,b(c=1,d=2)),e":                   "a b(c=1,d=2) e",
		"cosine(lr=0.05)":                          "cosine(lr=0.05)",
		"lin(0,1,5)":                               "0 0.25 0.5 0.75 1",
		"lin(3,1,3)":                               "3 2 1",

		// inside spec text
		"constant(lr=log(1e-3,1,4))":                        "constant(lr=0.001) constant(lr=0.01) constant(lr=0.1) constant(lr=1)",
		"raw,topk(keep=choice(0.01,0.1))":                   "raw topk(keep=0.01) topk(keep=0.1)",
		"feedback(qsgd(bits=range(2,4)))":                   "feedback(qsgd(bits=2)) feedback(qsgd(bits=3)) feedback(qsgd(bits=4))",
		"a(x=range(1,2),y=choice(p,q))":                     "a(x=1,y=p) a(x=1,y=q) a(x=2,y=p) a(x=2,y=q)",
		"feedback(choice(topk(keep=log(0.01,0.1,2)),sign))": "feedback(topk(keep=0.01)) feedback(topk(keep=0.1)) feedback(sign)",
		"mlp(hidden=[double(8,32),16])":                     "mlp(hidden=[8,16]) mlp(hidden=[16,16]) mlp(hidden=[32,16])",
		"choice(range(1,3),9)":                              "1 2 3 9",
		"range( 1 , 3 )":                                    "1 2 3",
		"topk(keep = log (0.01, 0.1, 2))":                   "topk(keep = 0.01) topk(keep = 0.1)",

		// parts of a user's own, named as what makes values is
		`feedback("log(0.5)")`:           `feedback("log(0.5)")`, // which spec text reads without the quotes
		`"log(0.5,1,2)",raw`:             "log(0.5,1,2) raw",
		`a(x="range(1,2)",y=range(1,2))`: `a(x="range(1,2)",y=1) a(x="range(1,2)",y=2)`,
		`a(x="say \"a, b)\""),raw`:       `a(x="say \"a, b)\"") raw`,
		`choice("a,b",c)`:                "a,b c",
		"log,range":                      "log range", // no brackets, nothing to make
	} {
		got, err := Values(text)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "raw,", "range(4,1)", "range(1)", "range(1,2,0)", "range(1,x)", "double(0,4)", "log(1,10,1)", "log(1,10,2.5)", "range(0,1e9)", "range(0,NaN)", "range(9007199254740993,9007199254740995)",
		"a(x=log(1,2))", "a(x=lin(1,1,3))", "a(x=lin(1,2,1))", "a(x=choice())", "a(x=choice(1,))", `a(x="b)`, "a(x=range(1,2", "a(x=range(1,9999),y=range(1,9999))"} {
		if got, err := Values(text); err == nil {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// Whatever is typed, there is an answer, and never more values than allowed.
func FuzzValues(f *testing.F) {
	f.Add("raw,topk(keep=0.01)")
	f.Add("range(0,1,0.25),double(1,64),log(1,2,3),choice(a,b)")
	f.Add("range(1,1e308)")
	f.Add("a(b=choice(c(d=log(1,2,3)),e),f=lin(0,1,2))")
	f.Add(`a("log(1)",",")`)
	f.Fuzz(func(t *testing.T, s string) {
		got, err := Values(s)
		if err == nil && (len(got) == 0 || len(got) > maxValues || slices.Contains(got, "")) {
			t.Errorf("%q gives %d values", s, len(got))
		}
	})
}

// No part that comes with gradlab is named as what makes values is: only a user's
// own needs quotes.
// A long text takes no more than a short one for each of its letters.
func TestLongValues(t *testing.T) {
	text := strings.Repeat("x[1", 1000)
	if n := testing.AllocsPerRun(1, func() { _, _ = Values(text) }); n > 200 {
		t.Errorf("%v allocations for %d letters", n, len(text))
	}
}

func TestMakersAreNoParts(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{
		compress.Families.Names(), sgd.Optimizers.Names(), lrschedule.Specs.Names(), lrschedule.Batches.Names(), train.Modes.Names(), timing.Laws.Names(), staleness.Policies.Names(), staleness.Correctors.Names(),
		collective.Topologies.Names(), collective.Graphs.Names(), ps.Placements.Names(), nn.Models.Names(), data.Sets.Names(), profile.Profiles.Names(),
	} {
		for _, name := range names {
			if makers[name] != nil {
				t.Errorf("%s makes values", name)
			}
		}
	}
}

// Axes of a run are multiplied out before they are read, and what comes out is
// plain spec text: in names, in configurations, and when it is read again.
func TestRangesInRuns(t *testing.T) {
	t.Parallel()
	const small = "data: digits\nmodel: mlp(hidden=[16])\nsteps: 12\nbatch: 8\nworkers: 3\nnet: sim\neval_every: 4\n"
	runs := mustRuns(t, small, "schedule=constant(lr=log(1e-3,1,4))", "codec=feedback(topk(keep=choice(0.01,0.1))),raw")
	if len(runs) != 12 || runs[0].Name != "codec=feedback(topk(keep=0.01)),schedule=constant(lr=0.001)" && runs[0].Name != "schedule=constant(lr=0.001),codec=feedback(topk(keep=0.01))" {
		t.Fatalf("%d runs, the first %q", len(runs), runs[0].Name)
	}
	for _, r := range runs {
		again, unknown, err := ParseConfig(r.Config.YAML())
		if err != nil || len(unknown) > 0 || again != r.Config {
			t.Errorf("%s: %v", r.Name, err)
		}
		if one := mustRuns(t, small, "schedule="+r.Config.Schedule, "codec="+r.Config.Codec); len(one) != 1 || one[0].Config != r.Config {
			t.Errorf("%s is not read as it was written", r.Name)
		}
	}
	for text, want := range map[string]string{
		"schedule=constant(lr=log(1e-3,1))":    "want log(from,to,count)",
		"schedule=constant(lr=logs(1e-3,1,4))": "choice, double, lin, log, range",
		"codec=topk(keep=choice(0.1,zero))":    "zero",
	} {
		r, err := ParseRecipe("small", "small.yaml", []byte(small))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Runs([]string{text}, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
