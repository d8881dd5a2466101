//go:build soak

package compresstest_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/compress/compresstest"
	"github.com/gradlab/gradlab/internal/rng"
)

// soakInputs is how many inputs each decoder gets.
const soakInputs = 200_000

// TestFuzzEveryCodec feeds the same 200,000 damaged payloads to each codec every time
// it runs: payloads of the golden vectors and those that fuzzing found, cut, spliced,
// flipped and filled anew. What fails is printed as a line for testdata/corpus.txt.
//
//	go test -run Fuzz -tags soak ./compress/compresstest
func TestFuzzEveryCodec(t *testing.T) {
	specs := compresstest.Specs()
	next := make(chan string)
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for spec := range next {
				if line, err := soak(spec, seeds(t, spec)); err != nil {
					t.Errorf("%v\nline for testdata/corpus.txt:\n%s", err, line)
				}
			}
		})
	}
	for _, spec := range specs {
		next <- spec
	}
	close(next)
	all.Wait()
}

// seeds is what the payloads for one codec are made from, by length of the vector.
func seeds(t *testing.T, spec string) map[int][][]byte {
	out := map[int][][]byte{}
	for _, d := range goldenLengths[:4] {
		_, payload, err := golden(compress.Families.MustParse(spec), d)
		if err != nil {
			t.Errorf("%s on %d elements: %v", spec, d, err)
		}
		out[d] = append(out[d], payload)
	}
	for _, c := range corpus(t) {
		if c.spec == spec {
			out[c.d] = append(out[c.d], c.payload)
		}
	}
	return out
}

// soak feeds one codec. Of a failure it says the line of the corpus.
func soak(spec string, from map[int][][]byte) (line string, err error) {
	f := compress.Families.MustParse(spec)
	var lengths []int
	for d := range from {
		lengths = append(lengths, d)
	}
	slices.Sort(lengths)
	draw := rng.New(21, "soak "+spec)
	for n := range soakInputs {
		d := lengths[n%len(lengths)]
		p := damaged(draw.With(uint64(n)), from[d], d)
		if err := compresstest.Decode(f, d, p); err != nil {
			return fmt.Sprintf("%s\t%d\t%s", spec, d, hex.EncodeToString(p)), fmt.Errorf("%s on %d elements: %w", spec, d, err)
		}
	}
	return "", nil
}

// damaged is a payload on d elements made from good ones by up to four changes.
func damaged(draw rng.Key, good [][]byte, d int) []byte {
	at := uint64(0)
	pick := func(n int) int { at++; return draw.IntN(at, max(1, n)) }
	p := bytes.Clone(good[pick(len(good))])
	for range 1 + pick(4) {
		lo := pick(len(p) + 1)
		hi := lo + pick(len(p)-lo+1)
		switch pick(9) {
		case 0: // cut off
			p = p[:lo]
		case 1: // a piece is missing
			p = slices.Delete(p, lo, hi)
		case 2: // a piece comes twice
			p = slices.Insert(p, hi, bytes.Clone(p[lo:hi])...)
		case 3: // longer by bytes of one kind
			p = append(p, bytes.Repeat([]byte{byte(pick(2) * 255)}, 1+pick(2*d+9))...)
		case 4: // a run of one byte
			for i := lo; i < hi; i++ {
				p[i] = [...]byte{0, 1, 0x7f, 0x80, 0xff}[d%5]
			}
		case 5: // a number such as a count or a length at the front
			if len(p) > 0 {
				p[0] = byte([]int{d, d - 1, d + 1, 2 * d, 0, 255, 128, 127}[pick(8)])
			}
		case 6: // a bit
			if lo < len(p) {
				p[lo] ^= 1 << pick(8)
			}
		case 7: // the front of this and the back of another
			o := good[pick(len(good))]
			p = append(p[:lo], o[pick(len(o)+1):]...)
		default: // chance
			for i := lo; i < hi; i++ {
				p[i] = byte(pick(256))
			}
		}
	}
	return p
}

// TestFuzzSoakSeesDefects proves the soak on a decoder that believes what it reads:
// what is planted there is found, in the inputs that a codec gets.
func TestFuzzSoakSeesDefects(t *testing.T) {
	const spec = "topk(keep=0.1,index=bitmap,values=bf16,sampled=true)"
	f := compress.Families.MustParse(spec)
	d := goldenLengths[2]
	_, good, err := golden(f, d)
	if err != nil {
		t.Fatal(err)
	}
	claims, _ := compress.ClaimsOf(f, compress.Block{Name: "golden", Rows: 1, Cols: d, World: 3, Peer: -1, Seed: 7})
	over := func(p []byte) bool { // as many hits as there are elements, behind them no indices: over the bound once
		return len(p) == 1+2*d && int(p[0]) == d && len(p) > claims.Size
	}
	draw := rng.New(21, "soak "+spec)
	for n := range soakInputs {
		if over(damaged(draw.With(uint64(n)), [][]byte{good}, d)) {
			return
		}
	}
	t.Errorf("of %d inputs none holds %d hits on %d elements (%s)", soakInputs, d, d, strings.TrimSpace(spec))
}
