package compress

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/registry"
)

// Parse reads spec text such as "feedback(topk(keep=0.01))". The error names
// what is wrong and what is allowed.
func Parse(text string) (Family, error) { return Families.Parse(text) }

// Spec prints f as spec text that Parse reads back, provided the words of a
// literal (index, values, norm, scale) are filled in.
func Spec(f Family) string { return Families.Spec(f) }

// Wrapper is implemented by families that hold families.
type Wrapper interface {
	// Inner lists the families held, none of them nil.
	Inner() []Family
}

// Chooser is implemented by families that hand a block to one of the families
// they hold and add nothing of their own.
type Chooser interface {
	Wrapper
	Choose(Block) Family
}

// Around is implemented by wrappers whose exchange is one around that of the codec
// inside, on whatever road that takes: memories, such as feedback. Other wrappers
// exchange their own encodings.
type Around interface {
	Wrapper
	// NewAround makes the exchange of a block for f. inside makes that of a family
	// inside, and says which road it takes. It returns nil, and no error, where f is not
	// of the receiver's own type but embeds it: f has a codec of its own, then.
	NewAround(f Family, b Block, inside func(Family) (Exchange, Road, error)) (Exchange, error)
}

// ClaimsOf is what f guarantees on b: nothing but a stated lack of linearity
// when f makes no claims. ok says whether it makes any.
func ClaimsOf(f Family, b Block) (c Claims, ok bool) {
	if cl, is := f.(Claimer); is {
		return cl.Claims(b), true
	}
	return Claims{Omega: math.Inf(1), Size: math.MaxInt}, false
}

// Unchecked reports whether f permits, anywhere inside, what construction would
// otherwise refuse (feedback or ef21 with unchecked=true). Such runs are marked.
func Unchecked(f Family) bool {
	return Somewhere(f, func(c Claims) bool { return c.Unchecked })
}

// Momentous is implemented by families that may keep a momentum of their own: part
// of what is encoded is sent, beyond what it was, in later steps too. An optimizer
// with a momentum behind them applies one twice. compresstest proves the claim.
type Momentous interface {
	// Momentous says whether, with these options, it does.
	Momentous() bool
}

// HasMomentum tells whether f, or a codec inside it, keeps a momentum.
func HasMomentum(f Family) bool {
	if m, ok := f.(Momentous); ok && m.Momentous() {
		return true
	}
	return slices.ContainsFunc(Inside(f), HasMomentum)
}

// validate checks the options of f alone: spec text has been checked, literals have
// not.
func validate(f Family) error {
	if v, ok := f.(registry.Validator); ok {
		return v.Validate()
	}
	return nil
}

// oneOf checks the word given for an option; "" stands for the first allowed
// one, so that a struct literal may leave it out.
func oneOf(key, word string, allowed ...string) error {
	if word == "" || slices.Contains(allowed, word) {
		return nil
	}
	return fmt.Errorf("option %q: no %q; %s", key, word, registry.Suggest(word, allowed))
}

// word is the option's value, or its default when left out.
func word(s, def string) string {
	if s == "" {
		return def
	}
	return strings.ToLower(s)
}

// validKeep checks a fraction of kept elements.
func validKeep(keep float64) error {
	if !(keep > 0 && keep <= 1) {
		return fmt.Errorf(`option "keep": want a fraction in (0, 1], not %v`, keep)
	}
	return nil
}

// kept is max(1, ⌈keep·d⌉), 0 for an empty block. A product that exceeds a
// whole number by rounding alone (0.07·100) does not count.
func kept(keep float64, d int) int {
	x := float64(keep * float64(d))
	return min(d, max(1, int(math.Ceil(x-float64(x*1e-12)))))
}

// Draws is an address in the space of random draws; With extends it, by a rank or
// a step, and Float64, Norm and so on are its draws by index.
type Draws = rng.Key

// Stream is the address of the draws of a codec, named by purpose, on a block:
// private ones differ from rank to rank, others are the same everywhere.
func Stream(purpose string, b Block, private bool) Draws { return stream(purpose, b, private) }

// stream is the address of a codec's draws on a block; steps extend it.
// Private streams differ by rank, shared ones do not.
func stream(purpose string, b Block, private bool) rng.Key {
	k := rng.New(b.Seed, purpose+"/"+b.Name).With(uint64(b.Dir))
	if private {
		k = k.With(uint64(b.Rank)).With(uint64(b.Peer))
	}
	return k
}

// checkLen panics when a vector does not have the block's length: the caller's
// error.
func checkLen(got, want int) {
	if got != want {
		panic(fmt.Sprintf("compress: vector of %d elements on a block of %d", got, want))
	}
}

// resize returns x with length n, reallocated only when it must grow.
func resize[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	return x[:n]
}
