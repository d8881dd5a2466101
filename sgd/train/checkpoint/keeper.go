package checkpoint

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/f32"
)

// Keeper carries what a rank has to keep into a checkpoint, or out of one: what
// keeps something names it once, in lines that do both. The first error stays, and
// what comes after it does nothing.
type Keeper struct {
	Of    *State // what is kept, or loaded
	loads bool
	Own   bool    // what this rank alone has: what its process shares is there
	Whole bool    // what this rank has of what all have alike, too, whoever keeps it
	Anew  bool    // codecs begin without what they kept
	Left  float64 // square of the norm of what codecs that were kept have yet to send
	err   error
}

// Saving is a keeper that puts things into a state.
func Saving(st *State) *Keeper { return &Keeper{Of: st} }

// Loading is a keeper that takes things out of a state.
func Loading(st *State) *Keeper { return &Keeper{Of: st, loads: true} }

// Loads says that state is taken up; else it is kept.
func (k *Keeper) Loads() bool { return k.loads }

// Alike says whether a rank names what all ranks have alike: it is kept by the first one,
// or by each for itself.
func (k *Keeper) Alike(rank int) bool { return k.loads || k.Own || k.Whole || rank == 0 }

// Err is the first error.
func (k *Keeper) Err() error { return k.err }

// Fail notes an error, unless there is one or it is nil.
func (k *Keeper) Fail(err error) {
	if k.err == nil {
		k.err = err
	}
}

// Has says whether a checkpoint that is loaded has a number, a vector or bytes of a
// name.
func (k *Keeper) Has(name string) bool {
	_, n := k.Of.Ints[name]
	_, b := k.Of.Bytes[name]
	return n || b || k.Of.Has(name)
}

// keepNumber keeps a whole number; one that a checkpoint does not have is 0.
func keepNumber[T int | int64 | uint64 | time.Duration](k *Keeper, name string, v *T) {
	if k.loads {
		*v = T(k.Of.Ints[name])
		return
	}
	k.Of.Ints[name] = int64(*v)
}

// Int keeps a number; one that a checkpoint does not have is 0.
func (k *Keeper) Int(name string, v *int) { keepNumber(k, name, v) }

// Count keeps a count, as Int does.
func (k *Keeper) Count(name string, v *uint64) { keepNumber(k, name, v) }

// Instant keeps an instant or a duration, as Int does.
func (k *Keeper) Instant(name string, v *time.Duration) { keepNumber(k, name, v) }

// Counts keeps counts by name, under a prefix. What is loaded is added to counts.
func (k *Keeper) Counts(prefix string, counts map[string]uint64) {
	if k.loads {
		for name := range k.Of.Ints {
			if of, ok := strings.CutPrefix(name, prefix); ok {
				counts[of] = 0
			}
		}
	}
	for of, n := range counts {
		if k.Count(prefix+of, &n); k.loads {
			counts[of] = n
		}
	}
}

// Lived says whether a worker lived when the checkpoint that is loaded was made. One
// that did not begins anew. It is true when state is kept.
func (k *Keeper) Lived(worker int) bool { return !k.loads || k.Has(Key(KeyStep, worker)) }

// InPlaceOf loads, for a worker, what the first one had that lived when the checkpoint
// was made.
func (k *Keeper) InPlaceOf(workers, worker int) *Keeper {
	for r := range workers {
		if k.Lived(r) {
			return Loading(k.Of.Renamed(r, worker))
		}
	}
	return k
}

// Float keeps a number to its last bit; one that a checkpoint does not have is 0.
func (k *Keeper) Float(name string, v *float64) {
	bits := math.Float64bits(*v)
	k.Count(name, &bits)
	if k.loads { // what is saved may be read by others meanwhile
		*v = math.Float64frombits(bits)
	}
}

// Vector keeps the values of v, which stays where it is. A checkpoint without it, or
// with one of another length, is an error.
func (k *Keeper) Vector(name string, v []float32) {
	switch {
	case k.err != nil:
	case k.loads:
		k.err = k.Of.Vector(name, v)
	default:
		k.Of.Vectors[name] = v
	}
}

// Values keeps a vector as bytes, which others do not put together. missing says
// what a checkpoint without it means.
func (k *Keeper) Values(name string, v []float32, missing string) {
	switch {
	case k.err != nil:
	case !k.loads:
		k.Of.Bytes[name] = f32.AppendBytes(nil, v)
	default:
		b, ok := k.Of.Bytes[name]
		switch {
		case !ok && len(v) > 0:
			k.err = fmt.Errorf("the checkpoint has no %q: %s", name, missing)
		case len(b) != 4*len(v):
			k.err = fmt.Errorf("the checkpoint's %q has %d bytes, want %d", name, len(b), 4*len(v))
		default:
			f32.FromBytes(v, b)
		}
	}
}

// ErrNoState says that a checkpoint lacks state that it should have.
var ErrNoState = errors.New("the checkpoint has no such state; it was written with another codec, placement or number of ranks")

// State keeps what v says of itself, as an encoding.BinaryAppender, and gives it
// back to an encoding.BinaryUnmarshaler. Anything else has no state.
func (k *Keeper) State(name string, v any) {
	if k.err != nil {
		return
	}
	if !k.loads {
		a, ok := v.(encoding.BinaryAppender)
		if !ok {
			return
		}
		b, err := a.AppendBinary(nil)
		if err != nil {
			k.err = fmt.Errorf("state of %s: %w", name, err)
		} else if len(b) > 0 {
			k.Of.Bytes[name] = b
		}
		if k.Own {
			n := compress.ResidualNorm(v)
			k.Left += float64(n * n)
		}
		return
	}
	u, ok := v.(encoding.BinaryUnmarshaler)
	if !ok || k.Anew && strings.HasPrefix(name, KeyCodecs) {
		return
	}
	b, ok := k.Of.Bytes[name]
	if !ok {
		k.err = fmt.Errorf("state of %s: %w", name, ErrNoState)
	} else if err := u.UnmarshalBinary(b); err != nil {
		k.err = fmt.Errorf("state of %s: %w", name, err)
	}
}

// Record keeps v as JSON, and reads it back to where v points; ok is false if there
// is none, or it could not be read.
func (k *Keeper) Record(name string, v any) (ok bool) {
	if k.err != nil {
		return false
	}
	if !k.loads {
		b, err := json.Marshal(v)
		k.err, k.Of.Bytes[name] = err, b
		return err == nil
	}
	b, ok := k.Of.Bytes[name]
	if !ok {
		return false
	}
	if err := json.Unmarshal(b, v); err != nil {
		k.err = fmt.Errorf("the checkpoint's %q: %w", name, err)
	}
	return k.err == nil
}
