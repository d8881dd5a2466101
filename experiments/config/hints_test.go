package config

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/registry"
)

// What hints say to try can be run, and no hint stands for a word that means
// something here, so that it would never be given.
func TestHintsCanBeTried(t *testing.T) {
	t.Parallel()
	quickstart, err := LoadRecipe("quickstart")
	if err != nil {
		t.Fatal(err)
	}
	shelf := &Shelf{}
	try := func(t *testing.T, h hint, refused func(word string) error) {
		t.Helper()
		runs, err := quickstart.Runs(append([]string{"codec=raw"}, strings.Fields(h.try)...), false)
		if err == nil {
			err = CheckAll(runs, Places{Shelf: shelf}, nil)
		}
		if err != nil {
			t.Errorf("%s: %s: %v", h.words, h.try, err)
		}
		for _, w := range strings.Fields(h.words) {
			if err := refused(w); err == nil {
				t.Errorf("%q is no mistake, so its hint is never given", w)
			} else if !strings.Contains(err.Error(), h.try) {
				t.Errorf("%q is refused without its hint: %v", w, err)
			}
		}
	}
	for _, h := range keyHints {
		try(t, h, func(w string) error { c := Default(); return c.Set(w, "1") })
	}
	keyOf := map[string]string{"data": "data"}
	for _, k := range Keys() {
		var u *registry.UnknownError
		c := Default()
		if k.tag.Get("spec") != "" && errors.As(c.Set(k.Name, "nothing_of_that_name"), &u) && keyOf[u.Kind] == "" {
			keyOf[u.Kind] = k.Name
		}
	}
	for kind, hs := range valueHints {
		key := keyOf[kind]
		if key == "" {
			t.Errorf("there is no kind %q", kind)
			continue
		}
		// A word may be a name, or an option of one of them.
		names := namesOf(t, key)
		for _, h := range hs {
			try(t, h, func(w string) error {
				c := Default()
				first := c.Set(key, w)
				if first != nil && strings.Contains(first.Error(), h.try) {
					return first
				}
				for _, n := range names {
					if err := c.Set(key, n+"("+w+"=1)"); err != nil && strings.Contains(err.Error(), h.try) {
						return err
					}
				}
				return first
			})
		}
	}
}

func namesOf(t *testing.T, key string) []string {
	t.Helper()
	var u *registry.UnknownError
	c := Default()
	if !errors.As(c.Set(key, "nothing_of_that_name"), &u) {
		t.Fatalf("key %s takes any name", key)
	}
	return u.There
}

// Wherever a word is refused, it is told what to type instead.
func TestHints(t *testing.T) {
	t.Parallel()
	file := "optimizer: momentum\nlr: 0.1\nruns:\n  - {name: a, weight_decay: 1e-4}\nquick: {batch_size: 8}\n"
	_, err := ParseRecipe("mine", "mine.yaml", []byte(file))
	wantAll(t, err, []string{`mine.yaml:2: unknown key "lr"; the learning rate is the schedule's: schedule=constant(lr=0.1)`,
		`mine.yaml:4: unknown key "weight_decay"`, "optimizer=chain(decay(rate=0.0005),momentum)", `mine.yaml:5: unknown key "batch_size"`, "batch=32"})
	r, err := ParseRecipe("mine", "mine.yaml", []byte("steps: 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Runs([]string{"Learning-Rate=1", "codec=none", "optimizer=sgd(lr=0.1)", "down_codec=feedback(topk(ratio=0.1))", "data=mnist(unreadable=0.1)"}, false)
	wantAll(t, err, []string{"schedule=constant(lr=0.1)", `no codec named "none"`, "no encoding is raw: codec=raw", `sgd has no option "lr"`, "unreadable= is a key of its own", "codec=topk(keep=0.01)"})
	if h := Hint("codec"); h != "" || slices.ContainsFunc(Keys(), func(k Key) bool { return Hint(k.Name) != "" }) {
		t.Errorf("a key has a hint")
	}
}
