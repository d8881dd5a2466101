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
	return compress.Simple(b, f.encode, f.decode), nil
}

func (f Every) Claims(b compress.Block) compress.Claims {
	return compress.Claims{Size: 4 * ((b.Len() + f.N - 1) / f.N), Homogeneous: true}
}

func (f Every) first(step int) int { return (f.N - step%f.N) % f.N }

func (f Every) encode(dst []byte, g []float32, s compress.Step) []byte {
	for i := f.first(s.N); i < len(g); i += f.N {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(g[i]))
	}
	return dst
}

func (f Every) decode(out []float32, p []byte, from compress.From) (rest []byte) {
	for i := f.first(from.Step); i < len(out); i, p = i+f.N, p[4:] {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(p))
	}
	return p
}

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
