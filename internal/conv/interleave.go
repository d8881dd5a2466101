package conv

// interleave packs columns of weights into rows of 16: dst[16l+o] = src[o·col +
// l·row] for l < n and o < cols, and 0 for other o.
func interleave(dst, src []float32, col, row, cols, n int) {
	switch {
	case cols == tileCols && col == 1:
		copySixteen(dst[:n*tileCols], src, row, tileCols)
		return
	case cols == tileCols && row == 1:
		done := transpose(dst, src, col, n)
		dst, src, n = dst[done*tileCols:], src[done:], n-done
	}
	for l := range n {
		for o := range cols {
			dst[l*tileCols+o] = src[o*col+l*row]
		}
		clear(dst[l*tileCols+cols : (l+1)*tileCols])
	}
}

func panels(channels int) int { return (channels + tileCols - 1) / tileCols }

func roundUp(channels int) int { return panels(channels) * tileCols }

// together says how many of so many panels to give to the next job: as many as it
// pays, and no lone one at the end if that can be avoided.
func together(left int) int {
	most := abreast()
	jobs := (left + most - 1) / most
	return (left + jobs - 1) / jobs
}
