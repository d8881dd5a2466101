// Package datatest is the conformance suite for data sets: what every rank, mode and
// resume relies on, whoever wrote the set. Sets tries all that are enrolled, Set one.
//
// The suite reads some hundred samples of a set, however large it is.
package datatest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data"
)

// Sets runs the suite on every set that is enrolled, at its defaults. One whose files
// are not found under o is skipped, with the reason.
func Sets(t *testing.T, o data.Options) {
	for _, name := range data.Sets.Names() {
		t.Run(name, func(t *testing.T) {
			set := data.Sets.MustParse(name)
			if in := info(name); in.Own {
				t.Skip("it needs a file that its options name")
			}
			var missing *data.MissingError
			if _, err := set.Open(o); errors.As(err, &missing) {
				t.Skip(err)
			}
			Set(t, set, o)
		})
	}
}

func info(name string) data.Info {
	for _, in := range data.List() {
		if in.Name == name {
			return in
		}
	}
	return data.Info{}
}

// Set runs the suite on one set. o says where its files are; seed, limits and
// augmentation are the suite's.
func Set(t *testing.T, set data.Set, o data.Options) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			if err := safely(func() error { return c.fails(opener{set, o}) }); err != nil {
				t.Error(err)
			}
		})
	}
}

// Failures is what Set would report, by name of the check: for tests of sets that are
// to fail.
func Failures(set data.Set, o data.Options) map[string]error {
	out := map[string]error{}
	for _, c := range checks {
		if err := safely(func() error { return c.fails(opener{set, o}) }); err != nil {
			out[c.name] = err
		}
	}
	return out
}

var checks = []struct {
	name  string
	fails func(opener) error
}{
	{"samples", samples}, {"address", address}, {"epoch", epoch}, {"test", testSet}, {"limit", limit}, {"validation", validation},
}

func safely(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return f()
}

// most is how many samples the checks serve: odd, so that no batch divides it.
const most = 97

// opener opens a set under the suite's options.
type opener struct {
	set data.Set
	o   data.Options
}

func (op opener) open(change ...func(*data.Options)) (sgd.Dataset, error) {
	o := op.o
	o.Seed, o.Limit, o.TestLimit, o.Validation, o.Augment = 1, most, most, 0, false
	for _, f := range change {
		f(&o)
	}
	return op.set.Open(o)
}

func augmented(o *data.Options)           { o.Augment = true }
func seeded(s uint64) func(*data.Options) { return func(o *data.Options) { o.Seed = s } }

// sample is the identity of a sample: a hash of its values, of what it is mixed with and of
// its further labels, and its first label.
type sample struct {
	values uint64
	label  int32
}

// read is the samples at positions first … first+n−1, taken cut at a time.
func read(s sgd.Source, first uint64, n, cut int) ([]sample, error) {
	var out []sample
	var b sgd.Batch
	dim, labels := s.Sample().Len(), s.Sample().Labels()
	for len(out) < n {
		d := sgd.Draw{First: first + uint64(len(out)), N: min(cut, n-len(out))}
		if err := s.Batch(d, &b); err != nil {
			return nil, fmt.Errorf("%d samples from position %d: %w", d.N, d.First, err)
		}
		given := inputs(s, b)
		if b.N != d.N || b.First != d.First || given != d.N*dim || len(b.Y) != d.N*labels || len(b.X)+len(b.Tokens) != given {
			return nil, fmt.Errorf("a draw of %d samples of %v at %d gives N %d, First %d, %d numbers, %d tokens and %d labels",
				d.N, s.Sample(), d.First, b.N, b.First, len(b.X), len(b.Tokens), len(b.Y))
		}
		for i := range d.N {
			h := fnv.New64a()
			put := func(v float32) {
				var word [4]byte
				binary.LittleEndian.PutUint32(word[:], math.Float32bits(v))
				h.Write(word[:])
			}
			if len(b.Tokens) > 0 {
				for _, v := range b.Tokens[i*dim : (i+1)*dim] {
					put(float32(v))
				}
			} else {
				for _, v := range b.X[i*dim : (i+1)*dim] {
					put(v)
				}
			}
			for _, y := range b.Y[i*labels+1 : (i+1)*labels] {
				put(float32(y))
			}
			if len(b.Share) > 0 { // the sample is mixed with another
				put(b.Share[i])
				put(float32(b.Other[i]))
			}
			out = append(out, sample{h.Sum64(), b.Y[i*labels]})
		}
	}
	return out, nil
}

// inputs is how many inputs of its source's kind a batch has.
func inputs(s sgd.Source, b sgd.Batch) int {
	if s.Sample().Vocabulary > 0 {
		return len(b.Tokens)
	}
	return len(b.X)
}

// memory is where the inputs and labels of a batch lie.
func memory(b sgd.Batch) (at [3]any) {
	if len(b.X) > 0 {
		at[0] = &b.X[0]
	}
	if len(b.Tokens) > 0 {
		at[1] = &b.Tokens[0]
	}
	at[2] = &b.Y[0]
	return at
}

func count(s []sample) map[sample]int {
	m := map[sample]int{}
	for _, x := range s {
		m[x]++
	}
	return m
}

// samples: there are some, finite, with labels below Classes; opened twice the set is
// the same, and a draw of none or of less than none does no harm.
func samples(op opener) error {
	ds, err := op.open()
	if err != nil {
		return err
	}
	again, err := op.open()
	if err != nil {
		return err
	}
	if ds.Hash != again.Hash {
		return fmt.Errorf("opened twice, Hash is %x and %x", ds.Hash, again.Hash)
	}
	for name, s := range map[string]sgd.Source{"train": ds.Train, "test": ds.Test} {
		of := s.Sample()
		if s.Len() < 1 || s.Len() > most || of.Len() < 1 || of.Classes < 2 {
			return fmt.Errorf("%s: %d samples of %v, of at most %d asked for", name, s.Len(), of, most)
		}
		b := sgd.Batch{X: []float32{7}, Tokens: []int32{7}, Y: []int32{7}}
		if err := s.Batch(sgd.Draw{N: s.Len()}, &b); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for i, y := range b.Y {
			if y < 0 || int(y) >= of.Classes {
				return fmt.Errorf("%s: label %d of %d classes at position %d", name, y, of.Classes, i/of.Labels())
			}
		}
		for i, v := range b.Tokens {
			if v < 0 || int(v) >= of.Vocabulary {
				return fmt.Errorf("%s: token %d of %d at position %d", name, v, of.Vocabulary, i/of.Len())
			}
		}
		for i, v := range b.X {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				return fmt.Errorf("%s: value %d is %v", name, i, v)
			}
		}
		whole := memory(b)
		if err := s.Batch(sgd.Draw{N: 1}, &b); err != nil || inputs(s, b) != of.Len() || memory(b) != whole {
			return fmt.Errorf("%s: a batch of 1 into the memory of a larger one: %d values, other memory: %t, %v", name, inputs(s, b), memory(b) != whole, err)
		}
		if err := s.Batch(sgd.Draw{}, &b); err != nil || b.N != 0 {
			return fmt.Errorf("%s: a draw of none: %d samples, %v", name, b.N, err)
		}
		if err := s.Batch(sgd.Draw{N: -1}, &b); err == nil {
			return fmt.Errorf("%s: a draw of −1 samples is no error", name)
		}
	}
	return nil
}

// address: the sample at a position depends on seed and position alone: not on how the
// stream is cut, on what was read before, or on who else reads. So do augmentations.
func address(op opener) error {
	for _, change := range [][]func(*data.Options){nil, {augmented}} {
		ds, err := op.open(change...)
		if err != nil {
			return err
		}
		n := ds.Train.Len() + 20 // into the next epoch
		want, err := read(ds.Train, 0, n, n)
		if err != nil {
			return err
		}
		again, err := op.open(change...)
		if err != nil {
			return err
		}
		for _, from := range []int{n - 15, 3} { // backwards, and in pieces
			got, err := read(again.Train, uint64(from), n-from, 7)
			if err != nil {
				return err
			}
			for i, s := range got {
				if i+from < n && s != want[from+i] {
					return fmt.Errorf("position %d has another sample when the stream is read in batches of 7 from %d (augmented: %t)", from+i, from, change != nil)
				}
			}
		}
		if err := together(ds.Train, want); err != nil {
			return err
		}
	}
	return nil
}

// together reads a source by four goroutines at a time.
func together(s sgd.Source, want []sample) error {
	errs := make([]error, 4)
	var all sync.WaitGroup
	for g := range errs {
		all.Go(func() {
			errs[g] = safely(func() error {
				got, err := read(s, 0, len(want), 3+g)
				if err == nil && !slices.Equal(got, want) {
					err = errors.New("read by four goroutines at a time it has other samples")
				}
				return err
			})
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// epoch: every epoch holds every sample once, in an order of its own, which another
// seed changes; which samples there are does not depend on the seed.
func epoch(op opener) error {
	ds, err := op.open()
	if err != nil {
		return err
	}
	n := ds.Train.Len()
	var orders [][]sample
	for e := range uint64(3) {
		got, err := read(ds.Train, e*uint64(n), n, 10)
		if err != nil {
			return err
		}
		orders = append(orders, got)
	}
	other, err := op.open(seeded(2))
	if err != nil {
		return err
	}
	got, err := read(other.Train, 0, n, 10)
	if err != nil {
		return err
	}
	orders = append(orders, got)
	first := count(orders[0])
	for i, o := range orders[1:] {
		what := fmt.Sprintf("epoch %d", i+1)
		if i == 2 {
			what = "the first epoch of another seed"
		}
		if !maps.Equal(count(o), first) {
			return fmt.Errorf("%s does not hold the samples of epoch 0, each as often", what)
		}
		if len(first) > 10 && slices.Equal(o, orders[0]) {
			return fmt.Errorf("%s has the order of epoch 0: the set is not shuffled, or not by the seed", what)
		}
	}
	return nil
}

// testSet: the test set is neither shuffled nor augmented, and the same for all seeds.
func testSet(op opener) error {
	ds, err := op.open()
	if err != nil {
		return err
	}
	n := ds.Test.Len()
	want, err := read(ds.Test, 0, n, n)
	if err != nil {
		return err
	}
	other, err := op.open(seeded(2), augmented)
	if err != nil {
		return err
	}
	for e := range uint64(2) {
		got, err := read(other.Test, e*uint64(n), n, 9)
		if err != nil {
			return err
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("pass %d over the test set, with another seed and augmentation asked for, has other samples or another order", e)
		}
	}
	return nil
}

// limit: fewer samples are some of those that more are, and as many as asked for.
func limit(op opener) error {
	few := func(o *data.Options) { o.Limit, o.TestLimit = 13, 11 }
	all, err := op.open()
	if err != nil {
		return err
	}
	ds, err := op.open(few)
	if err != nil {
		return err
	}
	if got, want := ds.Train.Len(), min(13, all.Train.Len()); got != want {
		return fmt.Errorf("a limit of 13 serves %d samples of %d", got, all.Train.Len())
	}
	if got, want := ds.Test.Len(), min(11, all.Test.Len()); got != want {
		return fmt.Errorf("a test limit of 11 serves %d samples of %d", got, all.Test.Len())
	}
	return within(ds.Train, all.Train)
}

// within says whether an epoch of few is part of one of all.
func within(few, all sgd.Source) error {
	a, err := read(few, 0, few.Len(), 10)
	if err != nil {
		return err
	}
	b, err := read(all, 0, all.Len(), 10)
	if err != nil {
		return err
	}
	have := count(b)
	for s, n := range count(a) {
		if n > have[s] {
			return errors.New("a smaller limit serves samples that a larger one does not")
		}
	}
	return nil
}

// validation: what is held out takes the place of the test set, and no training epoch
// holds it.
func validation(op opener) error {
	all, err := op.open()
	if err != nil {
		return err
	}
	if all.Train.Len() < 8 {
		return nil
	}
	// Windows of one text overlap. Those that hold tokens of both parts are in neither.
	overlap, limits := all.Train.Sample().Labels() > 1, func(*data.Options) {}
	if overlap {
		limits = func(o *data.Options) { o.Limit, o.TestLimit = 0, 0 }
		if all, err = op.open(limits); err != nil || all.Train.Len() > 100*most {
			return err
		}
	}
	ds, err := op.open(limits, func(o *data.Options) { o.Validation = 0.25 })
	if err != nil {
		return err
	}
	if ds.Train.Len()+ds.Test.Len() != all.Train.Len() && !overlap {
		return fmt.Errorf("validation=0.25 trains on %d and holds out %d of %d samples", ds.Train.Len(), ds.Test.Len(), all.Train.Len())
	}
	want, err := read(all.Train, 0, all.Train.Len(), 10)
	if err != nil {
		return err
	}
	train, err := read(ds.Train, 0, ds.Train.Len(), 10)
	if err != nil {
		return err
	}
	held, err := read(ds.Test, 0, ds.Test.Len(), 10)
	if err != nil {
		return err
	}
	if overlap {
		have := count(want)
		for s, n := range count(append(train, held...)) {
			if n > have[s] {
				return errors.New("samples trained on and held out are not, together, among those of the training set, each once")
			}
		}
		return nil
	}
	if !maps.Equal(count(append(train, held...)), count(want)) {
		return errors.New("samples trained on and held out are not, together, those of the training set, each once")
	}
	return nil
}
