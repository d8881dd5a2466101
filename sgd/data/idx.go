package data

import (
	"encoding/binary"
	"fmt"
)

// IDX, the format of MNIST: two zero bytes, a type (8 for unsigned bytes, the
// only one taken), the number of dimensions, then each dimension as a
// big-endian uint32, then the bytes, last dimension fastest. Images have three
// dimensions (sample, row, column) or four (sample, channel, row, column),
// labels one.

// isIDX tells whether head begins an IDX file of bytes.
func isIDX(head []byte) bool {
	return len(head) >= 8 && head[0] == 0 && head[1] == 0 && head[2] == 8 && head[3] >= 1 && head[3] <= 4
}

// parseIDX returns the dimensions and the bytes, which alias b. Nothing is
// allocated by what the header says.
func parseIDX(b []byte) (dims []int, body []byte, err error) {
	if !isIDX(b) {
		return nil, nil, fmt.Errorf("not an IDX file of bytes")
	}
	n := int(b[3])
	if len(b) < 4+4*n {
		return nil, nil, fmt.Errorf("IDX header cut off at %d bytes", len(b))
	}
	body = b[4+4*n:]
	want := uint64(1)
	for i := range n {
		d := uint64(binary.BigEndian.Uint32(b[4+4*i:]))
		if d == 0 || want*d > uint64(len(body)) { // no overflow: want ≤ len(body)
			return nil, nil, fmt.Errorf("IDX header promises more than the %d bytes behind it (dimension %d is %d)", len(body), i, d)
		}
		dims, want = append(dims, int(d)), want*d
	}
	if want != uint64(len(body)) {
		return nil, nil, fmt.Errorf("IDX header promises %d bytes, there are %d", want, len(body))
	}
	return dims, body, nil
}
