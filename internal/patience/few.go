package patience

// Few returns cases to try: all of them with the tag long, and without it n, spread evenly
// over them.
func Few[T any](n int, cases []T) []T {
	if Long || n >= len(cases) {
		return cases
	}
	var some []T
	for i := range n {
		some = append(some, cases[i*len(cases)/n])
	}
	return some
}
