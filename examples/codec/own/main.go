// Command own is gradlab with a codec of one's own in it.
package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments/cli"
)

var _ = compress.Families.Add("every", "every n-th entry, others each step", Every{N: 4})

// Every sends the entries i for which i + step is a multiple of N.
type Every struct {
	N int `spec:",show" doc:"at least 1"`
}

func (f Every) New(b compress.Block) (compress.Codec, error) {
	if f.N < 1 {
		return nil, fmt.Errorf(`option "n": want at least 1, not %d`, f.N)
	}
	return f, nil // it has no state, so it is its own codec
}

func (f Every) Claims(b compress.Block) compress.Claims {
	return compress.Claims{Size: 4 * ((b.Len() + f.N - 1) / f.N), Homogeneous: true}
}

func (f Every) Append(dst []byte, g []float32, s compress.Step) ([]byte, error) {
	for _, v := range g {
		if v-v != 0 {
			return dst, compress.ErrNotFinite
		}
	}
	for i := (f.N - s.N%f.N) % f.N; i < len(g); i += f.N {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(g[i]))
	}
	return dst, nil
}

func (f Every) AddTo(dst []float32, scale float32, p []byte, from compress.From) error {
	i := (f.N - from.Step%f.N) % f.N
	if want := 4 * max(0, (len(dst)-i+f.N-1)/f.N); len(p) != want || !compress.AllFinite(p) {
		return compress.Corruptf("%d bytes, want %d finite ones", len(p), want)
	}
	for ; i < len(dst); i, p = i+f.N, p[4:] {
		dst[i] += scale * math.Float32frombits(binary.LittleEndian.Uint32(p))
	}
	return nil
}

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
