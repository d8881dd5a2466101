package conv

// Parts of pixels, copied to where the kernel walks along them.

// copySixteenGo copies 16 channels of each pixel, or n and zeros where there are
// fewer.
func copySixteenGo(dst, src []float32, channels, n int) {
	n = min(n, tileCols)
	for len(dst) > 0 {
		clear(dst[copy(dst[:n], src):tileCols])
		dst = dst[tileCols:]
		src = src[min(channels, len(src)):]
	}
}

// copySixGo copies pieces of 6 channels of n pixels: piece k, from channel k·step
// on, of pixel i to dst[k·next + 6i:]. What is behind the end of src is left out;
// it is computed with to no effect.
func copySixGo(dst []float32, next int, src []float32, step, channels, n, pieces int) {
	for i := range n {
		for k := range pieces {
			if from := i*channels + k*step; from < len(src) {
				copy(dst[k*next+i*tileRows:][:tileRows], src[from:])
			}
		}
	}
}
