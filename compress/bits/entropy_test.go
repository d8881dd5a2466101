package bits

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

// streams are what codecs hand to a coder: noise, skewed symbols, runs.
func streams() map[string][]byte {
	r := rand.New(rand.NewPCG(7, 8))
	out := map[string][]byte{"empty": {}, "one": {7}, "two": {7, 7}, "three": {1, 2, 3}}
	for name, draw := range map[string]func() byte{
		"noise":  func() byte { return byte(r.Uint32()) },
		"skewed": func() byte { return byte(r.NormFloat64() * 5) },
		"runs":   func() byte { return 0 },
		"rare":   func() byte { return byte(max(0, int(r.Uint32()%100)-97)) },
	} {
		b := make([]byte, 300_001)
		for i := range b {
			b[i] = draw()
		}
		out[name], out[name+" short"] = b, b[:1000]
	}
	return out
}

func TestCodersRoundTrip(t *testing.T) {
	for _, name := range Coders {
		c, err := NewCoder(name)
		if err != nil {
			t.Fatal(err)
		}
		for what, src := range streams() {
			p := c.Append([]byte{9}, src)
			if p[0] != 9 || len(p)-1 > c.MaxLen(len(src)) {
				t.Fatalf("%s, %s: %d bytes of %d, bound %d", name, what, len(p)-1, len(src), c.MaxLen(len(src)))
			}
			if again := c.Append(nil, src); !bytes.Equal(again, p[1:]) {
				t.Fatalf("%s, %s: other bytes the second time", name, what)
			}
			got, err := c.Expand([]byte{3}, p[1:], len(src))
			if err != nil || got[0] != 3 || !bytes.Equal(got[1:], src) {
				t.Fatalf("%s, %s: %v", name, what, err)
			}
			if _, err := c.Expand(nil, p[1:], len(src)-1); err == nil && len(src) > 0 {
				t.Fatalf("%s, %s: the limit was not kept", name, what)
			}
			if _, err := c.Expand(nil, append(p[1:], 0), len(src)); err == nil {
				t.Fatalf("%s, %s: a trailing byte was taken", name, what)
			}
		}
	}
	if _, err := NewCoder("lzma"); err == nil {
		t.Error("an unknown coder was made")
	}
}

// Entropy coders reach the entropy of skewed symbols within 2 %.
func TestCodersNearEntropy(t *testing.T) {
	src := streams()["skewed"]
	h := entropy(src)
	for _, name := range []string{"huff0", "fse"} {
		c, _ := NewCoder(name)
		if got := 8 * float64(len(c.Append(nil, src))) / float64(len(src)); got > 1.02*h {
			t.Errorf("%s: %.3f bits a symbol, entropy %.3f", name, got, h)
		}
	}
}

func FuzzExpand(f *testing.F) {
	var all []*Coder
	for i, name := range Coders {
		c, _ := NewCoder(name)
		all = append(all, c)
		for _, src := range streams() {
			f.Add(uint8(i), c.Append(nil, src[:min(len(src), 1000)]))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, p []byte) {
		got, err := all[int(which)%len(all)].Expand(nil, p, 5000)
		if err == nil && len(got) > 5000 {
			t.Fatalf("%d bytes", len(got))
		}
	})
}

// entropy is the order-0 entropy of b in bits a byte.
func entropy(b []byte) (h float64) {
	var count [256]float64
	for _, v := range b {
		count[v]++
	}
	for _, n := range count {
		if n > 0 {
			p := n / float64(len(b))
			h -= p * math.Log2(p)
		}
	}
	return h
}
