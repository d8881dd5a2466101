package config

import (
	"fmt"
	"strconv"
	"strings"
)

// A recipe may say how many samples one update has, over all workers, in place of
// how many a worker has:
//
//	global_batch: 8192              # samples of one update over all workers
//	micro_batch: 32                 # how many of them a worker computes at once
//
// What a worker has follows from the number of workers, so that an update stays
// what it is wherever it is made: batch = global_batch/workers, computed in accumulate
// micro-batches of micro_batch samples, or of a few less where these do not go into
// it. Words and keys that say the same exclude each other; the later one counts.
const (
	globalBatch = "global_batch"
	microBatch  = "micro_batch"
)

// excluded is what a key takes the place of.
var excluded = map[string]string{"steps": "epochs", "epochs": "steps", "batch": globalBatch, globalBatch: "batch", "accumulate": microBatch, microBatch: "accumulate"}

// set gives a key, or a word that stands among the keys, a value.
func (r *Run) set(key, text string, t *texts) error {
	into := &r.Global
	switch key {
	case globalBatch:
	case microBatch:
		into = &r.Micro
	default:
		return r.Config.set(key, text, t)
	}
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 1 {
		return fmt.Errorf("key %q: want a whole number of samples, at least 1, not %q", key, text)
	}
	*into = n
	return nil
}

// show is a key's value as people write it.
func (r *Run) show(key string) string {
	switch key {
	case globalBatch:
		return strconv.Itoa(r.Global)
	case microBatch:
		return strconv.Itoa(r.Micro)
	}
	return r.Config.Show(key)
}

// divide gives every worker its share of the global batch.
func (r *Run) divide() error {
	if r.Global == 0 {
		return nil
	}
	c := &r.Config
	if r.Global%c.Workers != 0 {
		return fmt.Errorf("key %q: %d samples cannot be shared out evenly among workers=%d; take %s workers, or another %s", globalBatch, r.Global, c.Workers, divisorsNear(r.Global, c.Workers), globalBatch)
	}
	c.Batch = r.Global / c.Workers
	if r.Micro > 0 {
		c.Accumulate = (c.Batch + r.Micro - 1) / r.Micro
	}
	return nil
}

// divisorsNear names the divisors of n next to w.
func divisorsNear(n, w int) string {
	below, above := 1, n
	for d := 1; d*d <= n; d++ {
		if n%d != 0 {
			continue
		}
		for _, x := range []int{d, n / d} {
			if x < w {
				below = max(below, x)
			} else {
				above = min(above, x)
			}
		}
	}
	return fmt.Sprintf("%d or %d", below, above)
}

// Kept says how the global batch of a recipe was kept; "" if the recipe gives none.
func (r Run) Kept() string {
	if r.Global == 0 {
		return ""
	}
	c := r.Config
	text := fmt.Sprintf("an update has %d samples, however many workers there are: %s of %d each", r.Global, counted(c.Workers, "worker"), c.Batch)
	if c.Accumulate > 1 {
		text += fmt.Sprintf(", computed in %d micro-batches of %d, whose gradients add up (accumulate=%d)", c.Accumulate, (c.Batch+c.Accumulate-1)/c.Accumulate, c.Accumulate)
	}
	return text
}

// Begins is what is worth knowing of a run before it begins: how its global batch was
// kept, and what its paper reached.
func (r Run) Begins() (out []string) {
	if kept := r.Kept(); kept != "" {
		out = append(out, kept)
	}
	variant, _, _ := strings.Cut(r.Name, ",")
	for _, e := range r.Paper.Expects(variant) {
		out = append(out, "published: "+e.String())
	}
	return out
}

// counted is a number of things in words.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
