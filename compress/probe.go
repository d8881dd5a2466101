package compress

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"sync"

	"github.com/gradlab/gradlab/internal/portable"
	"github.com/gradlab/gradlab/internal/rng"
)

// Probes show on small blocks what claims say. The conformance suite proves Cast and
// Remembers by them; an engine asks ShowsCast and ShowsMemory before a run that a false
// claim would make diverge, so that families which never met the suite are held to it.

// probed are small blocks: a vector that is no power of two, and a matrix.
var probed = []Block{
	{Name: "probe.vector", Role: "bias", Rows: 1, Cols: 65, World: 1, Peer: -1, Seed: 1},
	{Name: "probe.matrix", Role: "weight", Rows: 16, Cols: 16, World: 1, Peer: -1, Seed: 1},
}

// larger is for codecs that refuse those.
var larger = Block{Name: "probe.larger", Role: "weight", Rows: 64, Cols: 128, World: 1, Peer: -1, Seed: 1}

// shown is what probes have shown, by family, of those that can be compared.
var shown sync.Map // of finding

type finding struct {
	of   Family
	what string
}

// remembered is find, asked once for a family.
func remembered(f Family, what string, find func() bool) bool {
	if !reflect.ValueOf(f).Comparable() {
		return find()
	}
	key := finding{f, what}
	if v, ok := shown.Load(key); ok {
		return v.(bool)
	}
	v := find()
	shown.Store(key, v)
	return v
}

// ShowsCast reports whether what f and the families inside it encode on small blocks
// is what Claims.Cast says.
func ShowsCast(f Family) bool {
	return remembered(f, "cast", func() bool {
		for _, b := range probed {
			if is, err := CastOn(f, b); !is || err != nil {
				return false
			}
		}
		return !slices.ContainsFunc(Inside(f), func(in Family) bool { return !ShowsCast(in) })
	})
}

// CastOn measures whether f is a cast on b: see Claims.Cast. The error is that of a
// codec that cannot be made or refuses what is encoded.
func CastOn(f Family, b Block) (bool, error) {
	d := b.Len()
	g := noise(b, "cast", 0, 1)
	long, err := f.New(b)
	if err != nil {
		return false, err
	}
	for n := range 3 {
		// Values far larger beside a value must leave its bytes alone, and so must steps
		// before.
		var whole []byte
		for odd := range 2 {
			other := slices.Clone(g)
			for i := odd; i < d; i += 2 {
				other[i] *= 64
			}
			fresh, err := f.New(b)
			if err != nil {
				return false, err
			}
			if whole, err = long.Append(whole[:0], g, Step{N: n}); err != nil {
				return false, err
			}
			part, err := fresh.Append(nil, other, Step{N: n})
			if err != nil {
				return false, err
			}
			if len(whole) != len(part) || d > 0 && len(whole)%d != 0 {
				return false, nil
			}
			for i, w := 1-odd, len(whole)/max(1, d); i < d; i += 2 {
				if !bytes.Equal(whole[i*w:(i+1)*w], part[i*w:(i+1)*w]) {
					return false, nil
				}
			}
		}
		out := make([]float32, d)
		if err := long.AddTo(out, 1, whole, From{Rank: b.Rank, Step: n}); err != nil {
			return false, err
		}
		for i, v := range out {
			if math.Abs(float64(v)-float64(g[i])) > float64(0x1.01p-7*math.Abs(float64(g[i])))+0x1p-24 {
				return false, nil
			}
		}
	}
	return true, nil
}

// ShowsMemory reports whether f, or a family inside it, keeps what it leaves out on
// small blocks, as Claims.Remembers says. What an option permits (Claims.Unchecked) is
// not looked at.
func ShowsMemory(f Family) bool {
	return remembered(f, "memory", func() bool {
		measured := false
		for i, b := range slices.Concat(probed, []Block{larger}) {
			if c, _ := ClaimsOf(f, b); c.Unchecked {
				return false
			}
			if measured && i == len(probed) {
				break
			}
			is, err := MemoryOn(f, b, 3)
			if is && err == nil {
				return true
			}
			measured = measured || err == nil
		}
		return slices.ContainsFunc(Inside(f), ShowsMemory)
	})
}

// MemoryOn measures whether f keeps what it leaves out of gradients on b for later steps.
// Two codecs are compared, one of which is given zeros in place of those gradients. What
// they send later, and differ by, is late = Σ C(h) − C₀(h). A memory sends what the first
// has left out, left = Σ g − C(g):
//
//	cos(late, left) ≥ 0.1 where later gradients h are zeros
//	⟨late, left⟩ ≥ ‖left‖²/4 where they are as large as g
//
// The latter lift over a threshold what zeros do not; there, other state may make some
// difference by chance. Magnitudes are tried, up to scales of them: 1, 2⁵, 2⁻⁵, 2¹⁰ ….
// The error is that of a codec that cannot be made. Codecs with a receiver have no
// memory: they are measured without it, and not rightly.
func MemoryOn(f Family, b Block, scales int) (bool, error) {
	for n := range scales {
		size := portable.Pow(2, float64(5*((n+1)/2)*(2*(n%2)-1)))
		for _, t := range []trial{{1, 130, false}, {12, 64, false}, {1, 24, true}} {
			if is, err := t.shows(f, b, float32(size)); is || err != nil {
				return is, err
			}
		}
	}
	return false, nil
}

// trial is some gradients, and later ones, which are zeros or as large.
type trial struct {
	gradients, later int
	lifted           bool
}

// shows reports whether what is left out comes later. A codec that refuses gradients of
// that size shows nothing.
func (t trial) shows(f Family, b Block, size float32) (bool, error) {
	a, err := f.New(b)
	if err != nil {
		return false, err
	}
	z, err := f.New(b)
	if err != nil {
		return false, err
	}
	d := b.Len()
	zero, left, late, rest := make([]float32, d), make([]float32, d), make([]float32, d), make([]float32, d)
	var payload []byte
	send := func(c Codec, g []float32, n int, to []float32, scale float32) (err error) {
		if payload, err = c.Append(payload[:0], g, Step{N: n, Seed: b.Seed}); err != nil {
			return err
		}
		return c.AddTo(to, scale, payload, From{Rank: b.Rank, Step: n})
	}
	for n := range t.gradients {
		g := noise(b, "memory", n, size)
		for i, v := range g {
			left[i] += v
		}
		if send(a, g, n, left, -1) != nil || send(z, zero, n, rest, 1) != nil {
			return false, nil
		}
	}
	for k := range t.later {
		n, h := t.gradients+k, zero
		if t.lifted {
			h = noise(b, "later", n, size)
		}
		if send(a, h, n, late, 1) != nil || send(z, h, n, late, -1) != nil {
			return false, nil
		}
		// A memory that grows without bound shows at first and is lost in noise then.
		if !t.lifted && k&(k+1) == 0 && cosine(late, left) >= 0.1 {
			return true, nil
		}
	}
	if !t.lifted {
		return false, nil
	}
	dot, lefts, _ := products(late, left)
	return lefts > 0 && dot >= lefts/4, nil
}

// cosine is that of the angle between two vectors, 0 if one of them is zero.
func cosine(x, y []float32) float64 {
	dot, ys, xs := products(x, y)
	if dot == 0 {
		return 0
	}
	return dot / (math.Sqrt(xs) * math.Sqrt(ys))
}

// products are ⟨x, y⟩, ‖y‖² and ‖x‖².
func products(x, y []float32) (dot, ys, xs float64) {
	for i, v := range y {
		a, b := float64(x[i]), float64(v)
		dot, ys, xs = dot+float64(a*b), ys+float64(b*b), xs+float64(a*a)
	}
	return dot, ys, xs
}

// noise is a vector of normal values times size.
func noise(b Block, purpose string, n int, size float32) []float32 {
	k := rng.New(1, "compress/probe/"+purpose).With(uint64(n))
	g := make([]float32, b.Len())
	for i := range g {
		g[i] = size * float32(k.Norm(uint64(i)))
	}
	return g
}
