package sim

// deque is a queue in a ring of memory that it keeps.
type deque[T any] struct {
	buf     []T // a power of two long
	head, n int
}

func (d *deque[T]) len() int { return d.n }

// at is the i-th element from the front.
func (d *deque[T]) at(i int) *T { return &d.buf[(d.head+i)&(len(d.buf)-1)] }

func (d *deque[T]) push(v T) {
	if d.n == len(d.buf) {
		buf := make([]T, max(4, 2*d.n))
		for i := range d.n {
			buf[i] = *d.at(i)
		}
		d.buf, d.head = buf, 0
	}
	d.n++
	*d.at(d.n - 1) = v
}

func (d *deque[T]) pop() T {
	var none T
	p := d.at(0)
	v := *p
	*p = none
	d.head, d.n = (d.head+1)&(len(d.buf)-1), d.n-1
	return v
}
