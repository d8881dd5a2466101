package progress

import (
	"fmt"
	"sync"
)

// transfer is a download being shown.
type transfer struct {
	row *row

	mu          sync.Mutex
	done, total int64
	speed       meter
}

// Download shows how much of a file has come: done of total bytes, a total
// below 1 being unknown. The row gives way to a line when done reaches total.
func (d *Display) Download(file string, done, total int64) {
	if d.silent() {
		return
	}
	d.downloading.Lock()
	defer d.downloading.Unlock()
	t, known := d.transfers[file]
	whole := total > 0 && done >= total
	switch {
	case t == nil && known && whole: // said already
		return
	case t == nil:
		t = &transfer{}
		t.row = d.row(file, t.show)
		d.transfers[file] = t
	}
	t.mu.Lock()
	t.done, t.total = done, total
	t.speed.add(d.now(), float64(done))
	t.mu.Unlock()
	if !whole {
		t.row.tell(d.every)
		return
	}
	t.row.end("downloaded " + Bytes(uint64(total)))
	d.transfers[file] = nil
}

func (t *transfer) show() (done float64, fields []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	have := Bytes(uint64(max(t.done, 0)))
	if t.total > 0 {
		done = float64(t.done) / float64(t.total)
		fields = append(fields, fmt.Sprintf("%s of %s (%d %%)", have, Bytes(uint64(t.total)), percent(done)))
	} else {
		done = -1
		fields = append(fields, have)
	}
	if t.speed.known() {
		fields = append(fields, Bytes(uint64(t.speed.rate))+"/s")
		if left := float64(t.total - t.done); left > 0 && t.speed.rate > 0 {
			fields = append(fields, "eta "+Seconds(left/t.speed.rate))
		}
	}
	return done, fields
}
