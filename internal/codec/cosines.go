package codec

// Steps of cosine transforms, on rows of float64 of one length.

// Fold sets sum to x + y and diff to (x − y)·m, element by element. It panics
// unless all have the length of sum.
func Fold(sum, diff, x, y []float64, m float64) {
	k := len(sum)
	same("Fold", len(diff), k)
	same("Fold", len(x), k)
	same("Fold", len(y), k)
	n := whole(k, 4)
	foldAVX2(sum[:n], diff, x, y, m)
	foldGo(sum[n:], diff[n:], x[n:], y[n:], m)
}

func foldGo(sum, diff, x, y []float64, m float64) {
	diff, x, y = diff[:len(sum)], x[:len(sum)], y[:len(sum)]
	for i, v := range x {
		sum[i], diff[i] = v+y[i], (v-y[i])*m
	}
}

// Unfold sets x to sum + diff·m and y to sum − diff·m, element by element. It
// panics unless all have the length of x.
func Unfold(x, y, sum, diff []float64, m float64) {
	k := len(x)
	same("Unfold", len(y), k)
	same("Unfold", len(sum), k)
	same("Unfold", len(diff), k)
	n := whole(k, 4)
	unfoldAVX2(x[:n], y, sum, diff, m)
	unfoldGo(x[n:], y[n:], sum[n:], diff[n:], m)
}

func unfoldGo(x, y, sum, diff []float64, m float64) {
	y, sum, diff = y[:len(x)], sum[:len(x)], diff[:len(x)]
	for i, v := range sum {
		e := float64(diff[i] * m)
		x[i], y[i] = v+e, v-e
	}
}

// Sum sets dst to x + y, element by element; dst may be one of them. It panics
// unless all have one length.
func Sum(dst, x, y []float64) {
	same("Sum", len(x), len(dst))
	same("Sum", len(y), len(dst))
	n := whole(len(dst), 4)
	sumAVX2(dst[:n], x, y)
	sumGo(dst[n:], x[n:], y[n:])
}

func sumGo(dst, x, y []float64) {
	x, y = x[:len(dst)], y[:len(dst)]
	for i, v := range x {
		dst[i] = v + y[i]
	}
}
