package compresstest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/f32"
)

// first is what a fresh codec makes of a gradient.
func first(f compress.Family, b compress.Block, n int) ([]byte, error) {
	c, err := newCoder(f, b)
	if err == nil {
		err = c.encode(gaussian(b.Len(), n))
	}
	if err != nil {
		return nil, err
	}
	return c.payload, nil
}

// shapes are square, oblong and degenerate.
func shapes() (out []compress.Block) {
	for _, s := range [][2]int{{1, 100}, {100, 1}, {2, 64}, {64, 2}, {5, 13}, {24, 24}, {64, 65}, {300, 20}} {
		b := block(0)
		b.Rows, b.Cols = s[0], s[1]
		out = append(out, b)
	}
	return out
}

// checkRaw: Claims.Raw is claimed where first payloads are the values as they are,
// and nowhere else; later payloads are as long.
func checkRaw(f compress.Family) error {
	for _, b := range shapes() {
		claims, _ := compress.ClaimsOf(f, b)
		raw := true
		for n := range 2 {
			p, err := first(f, b, n)
			if err != nil {
				return err
			}
			raw = raw && bytes.Equal(p, f32.AppendBytes(nil, gaussian(b.Len(), n)))
		}
		if raw != claims.Raw {
			return fmt.Errorf("%d×%d: first payloads are the values as they are: %t, claimed: %t", b.Rows, b.Cols, raw, claims.Raw)
		}
		if !raw {
			continue
		}
		if !claims.Exact || claims.Size != 4*b.Len() {
			return fmt.Errorf("%d×%d: raw, but not exactly %d bytes are claimed", b.Rows, b.Cols, 4*b.Len())
		}
		c, err := newCoder(f, b)
		if err != nil {
			return err
		}
		for n := range 4 {
			if err := c.encode(gaussian(b.Len(), n)); err != nil {
				return err
			}
			if len(c.payload) != 4*b.Len() {
				return fmt.Errorf("%d×%d: raw, but %d bytes at step %d", b.Rows, b.Cols, len(c.payload), n)
			}
			if claims.Plain() && !bytes.Equal(c.payload, f32.AppendBytes(nil, gaussian(b.Len(), n))) {
				return fmt.Errorf("%d×%d: plain (raw, lossless, without state, NaN let through), but other bytes than the values at step %d", b.Rows, b.Cols, n)
			}
		}
	}
	return nil
}

// checkShaped: Claims.Shaped is claimed where the same values as a vector are
// encoded otherwise, and nowhere else.
func checkShaped(f compress.Family) error {
	for _, b := range shapes() {
		claims, _ := compress.ClaimsOf(f, b)
		if b.Cols == 1 { // its rows are its elements: it is cut anywhere, whatever is claimed
			continue
		}
		v := b
		v.Rows, v.Cols = 1, b.Len()
		c, err := newCoder(f, b)
		if err != nil {
			return err
		}
		d, err := newCoder(f, v)
		if err != nil {
			return err
		}
		same := true
		for n := range 4 {
			g := gaussian(b.Len(), n)
			if err := errors.Join(c.encode(g), d.encode(g)); err != nil {
				return err
			}
			same = same && bytes.Equal(c.payload, d.payload)
		}
		if same == claims.Shaped {
			return fmt.Errorf("%d×%d: as a vector it is encoded the same: %t, Shaped: %t", b.Rows, b.Cols, same, claims.Shaped)
		}
	}
	return nil
}
