package bench

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// pictured is a short measurement of pictures, and the fake as its peer.
func pictured(t *testing.T, how string) DataOptions {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pil, err := FindPIL(t.Context(), self, append(os.Environ(), fakeVariable+"="+how))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if size, err := makePictures(dir); err != nil || size < 50<<10 || size > 150<<10 {
		t.Fatalf("%d bytes a picture, %v", size, err)
	}
	return DataOptions{Sizes: []int{32}, Pictures: dir, Seconds: 0.05, PIL: pil, Command: []string{"gradlab"}, Logf: t.Logf}
}

func TestData(t *testing.T) {
	o := pictured(t, "well")
	r, err := Data(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	row := r.Rows[0]
	if len(row.Ours) != 3 || row.Ours[2].Name != "reduced" || len(row.Peers) != 2 || row.Best == "" || row.Peers[0].Version != "0.0-fake" {
		t.Fatalf("%+v", row)
	}
	for _, s := range append(row.Ours, row.Peers...) {
		if !(s.Pictures.Min > 0 && s.Pictures.Min <= s.Pictures.Median) || len(s.Blocks) < minRounds || s.Error != "" {
			t.Errorf("%+v", s)
		}
	}
	for _, p := range row.Peers {
		if !(p.Ratio.Median > 0) {
			t.Errorf("%+v", p)
		}
	}
	var text bytes.Buffer
	if err := r.WriteTables(&text, "csv"); err != nil || !strings.Contains(text.String(), "size,full /s,cached /s,reduced /s,pil /s,draft /s,ratio to the best") {
		t.Errorf("%v\n%s", err, text.String())
	}
	keys(t, r, "command", "machine", "pictures", "rows")
	keys(t, row, "size", "ours", "peers", "best_peer")
}

// A peer that fails does not take our own figures with it.
func TestDataWithoutPeer(t *testing.T) {
	o := pictured(t, "broken")
	r, err := Data(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "PIL draft: cannot import") {
		t.Fatal(err)
	}
	if row := r.Rows[0]; row.Best != "" || row.Error != "" || !(row.Ours[1].Pictures.Median > 0) || row.Peers[0].Error == "" {
		t.Errorf("%+v", row)
	}
	o.PIL, o.Pictures = nil, t.TempDir()
	if r, err = Data(t.Context(), o); err == nil || r.Rows[0].Error == "" {
		t.Errorf("a folder without pictures: %+v, %v", r.Rows, err)
	}
}

// The peer reads what we read.
func TestPILReadsTheSamePictures(t *testing.T) {
	pil, err := FindPIL(t.Context(), "", os.Environ())
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if _, err := makePictures(dir); err != nil {
		t.Fatal(err)
	}
	for _, variant := range pilVariants {
		w, err := pil.start(t.Context(), variant, dir, 64)
		if err != nil {
			t.Fatal(err)
		}
		defer w.end()
		if w.hello.Files != madePictures {
			t.Errorf("%d files, want %d", w.hello.Files, madePictures)
		}
		if took, err := w.block(t.Context(), 2); err != nil || !(took > 0) {
			t.Error(took, err)
		}
	}
}
