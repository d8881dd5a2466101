package data

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var quick = timing{connect: 2 * time.Second, stall: 200 * time.Millisecond, pause: time.Millisecond}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// TestDownload runs one download against servers with all sorts of habits.
func TestDownload(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte("0123456789abcdef"), 20000)
	serve := func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	}
	breaking := func(after int) http.HandlerFunc { // sends so much, then hangs up
		return func(w http.ResponseWriter, r *http.Request) {
			var off int
			fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &off)
			w.Header().Set("Content-Length", fmt.Sprint(len(body)-off))
			if off > 0 {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", off, len(body)-1, len(body)))
				w.WriteHeader(http.StatusPartialContent)
			}
			w.Write(body[off:min(off+after, len(body))])
		}
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(code) }
	}
	wrong := func(w http.ResponseWriter, r *http.Request) { w.Write(bytes.Repeat([]byte("x"), len(body))) }
	for _, c := range []struct {
		name     string
		handlers []http.HandlerFunc
		part     []byte // already there
		size     int64
		want     string // of the error
		requests int32
	}{
		{"whole", []http.HandlerFunc{serve}, nil, 0, "", 1},
		{"resumed", []http.HandlerFunc{serve}, body[:100000], int64(len(body)), "", 1},
		{"complete part", []http.HandlerFunc{serve}, body, int64(len(body)), "", 0},
		{"complete part of unknown size", []http.HandlerFunc{serve}, body, 0, "", 1},
		{"part too long", []http.HandlerFunc{serve}, append(bytes.Clone(body), 'x'), 0, "", 2},
		{"bad part", []http.HandlerFunc{serve}, []byte("bad"), int64(len(body)), "", 2},
		{"no ranges", []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) { w.Write(body) }}, body[:10], 0, "", 1},
		{"breaks off", []http.HandlerFunc{breaking(100000)}, nil, int64(len(body)), "", 4},
		{"second address", []http.HandlerFunc{status(404), status(500), serve}, nil, 0, "", 3},
		{"wrong content, then right", []http.HandlerFunc{wrong, serve}, nil, 0, "", 2},
		{"wrong content", []http.HandlerFunc{wrong}, nil, 0, "checksum", 1},
		{"wrong size", []http.HandlerFunc{serve}, nil, 5, "offers 320000 bytes", 1},
		{"not found", []http.HandlerFunc{status(404)}, nil, 0, "404", 1},
		{"odd range", []http.HandlerFunc{status(206)}, body[:10], 0, "asked for bytes from 10", 1},
		{"stalls", []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.Write([]byte("x"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}}, body[:0], 0, "nothing arrived", 0},
		{"silent", []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}, nil, 0, "timeout", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var requests atomic.Int32
			d := download{remote: remote{name: "f", size: c.size, raw: sum(body)}, dst: filepath.Join(t.TempDir(), "f"), timing: quick}
			for _, h := range c.handlers {
				srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { requests.Add(1); h(w, r) }))
				defer srv.Close()
				d.urls = append(d.urls, srv.URL)
			}
			if c.part != nil {
				os.WriteFile(d.part(), c.part, 0o644)
			}
			var last Progress
			d.tell = func(p Progress) { last = p }
			err := d.run(t.Context())
			got, _ := os.ReadFile(d.dst)
			if c.want == "" && (err != nil || !bytes.Equal(got, body)) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || got != nil) {
				t.Fatalf("error %v, %d bytes", err, len(got))
			}
			if n := requests.Load(); c.requests > 0 && n != c.requests {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
			if c.want == "" && c.requests > 0 && c.part == nil && (last.Done != int64(len(body)) || last.Total != int64(len(body))) {
				t.Errorf("progress ends at %+v", last)
			}
		})
	}
}

func TestDownloadIsCancelled(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	slow := quick
	slow.stall = time.Minute
	d := download{remote: remote{name: "f", raw: "00"}, dst: filepath.Join(t.TempDir(), "f"), urls: []string{srv.URL}, timing: slow}
	if err := d.run(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// fake replaces a set's recipe by one with small files and no public mirrors.
func fake(t *testing.T) (files map[string][]byte) {
	t.Helper()
	tx, ty := idxPair(30, 8)
	vx, vy := idxPair(20, 4)
	files = map[string][]byte{"train-images": gz(tx), "train-labels": ty, "t10k-images": vx, "t10k-labels": vy}
	old := recipes["mnist"]
	r := *old
	r.mirrors, r.files = nil, nil
	for _, name := range []string{"train-images", "train-labels", "t10k-images", "t10k-labels"} {
		r.files = append(r.files, remote{name: name, size: int64(len(files[name])), raw: sum(files[name])})
	}
	recipes["mnist"] = &r
	t.Cleanup(func() { recipes["mnist"] = old })
	return files
}

func TestOpenDownloads(t *testing.T) {
	files := fake(t)
	var requests atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		b, ok := files[strings.TrimPrefix(r.URL.Path, "/mirror/mnist/")]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		w.Write(b)
	}))
	defer srv.Close()
	seen := map[string]bool{}
	o := Options{Cache: t.TempDir(), Mirror: srv.URL + "/mirror", Progress: func(p Progress) { seen[p.Set+"/"+p.File] = true }}
	var missing *MissingError
	if _, err := Open("mnist", o); !errors.As(err, &missing) || requests.Load() != 0 || !strings.Contains(err.Error(), "gradlab data mnist --fetch") {
		t.Fatalf("without leave to download: %v", err)
	}
	o.Download = true
	for range 2 {
		ds := open(t, "mnist", o)
		if ds.Train.Len() != 30 || requests.Load() != 4 || len(seen) != 4 {
			t.Fatalf("%d samples, %d requests, %d files told of", ds.Train.Len(), requests.Load(), len(seen))
		}
	}
	loc, err := Check("mnist", o)
	if err != nil || loc.Origin != Cached || len(loc.Files) != 4 {
		t.Fatal(loc, err)
	}
	for _, f := range loc.Files {
		if f.State != Verified {
			t.Errorf("%+v", f)
		}
	}
	// A damaged file is fetched again, the others are not.
	os.WriteFile(loc.Files[2].Path, []byte("damage"), 0o644)
	if loc, _ := Check("mnist", o); loc.Files[2].State != Differs {
		t.Errorf("%+v", loc.Files[2])
	}
	fetched, err := Fetch(t.Context(), "mnist", o)
	if err != nil || requests.Load() != 5 || fetched.Files[2].State != Verified {
		t.Errorf("%d requests, %v", requests.Load(), err)
	}
}

// A download that was broken off, between two files or within one, is gone on with
// when the set is opened again.
func TestOpenGoesOnWithADownload(t *testing.T) {
	files := fake(t)
	cifar := tarBytes(entry{"data_batch_1.bin", cifarBytes(cifar10Rec, 20)}, entry{"test_batch.bin", cifarBytes(cifar10Rec, 10)})
	packed := gz(cifar)
	old := recipes["cifar10"]
	r := *old
	r.mirrors, r.files = nil, []remote{{name: "cifar-10-binary.tar.gz", size: int64(len(packed)), raw: sum(packed)}}
	recipes["cifar10"] = &r
	defer func() { recipes["cifar10"] = old }()

	var requests atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		b := packed
		if name, ok := strings.CutPrefix(r.URL.Path, "/mnist/"); ok {
			b = files[name]
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
	}))
	defer srv.Close()
	for _, c := range []struct {
		set      string
		there    []entry
		samples  int
		requests int32
	}{
		{"mnist", []entry{{"mnist/train-images", files["train-images"]}}, 30, 3},
		{"mnist", []entry{{"mnist/train-images", files["train-images"]}, {"mnist/train-labels.part", files["train-labels"][:10]}}, 30, 3},
		{"mnist", []entry{{"mnist/train-images.part", files["train-images"][:40]}}, 30, 4},
		{"cifar10", []entry{{"cifar10/cifar-10-binary.tar.gz.part", packed[:len(packed)/2]}}, 20, 1},
	} {
		requests.Store(0)
		ds, err := Open(c.set, Options{Cache: put(t, c.there...), Mirror: srv.URL, Download: true})
		if err != nil {
			t.Errorf("%s with %d files: %v", c.set, len(c.there), err)
		} else if ds.Train.Len() != c.samples || requests.Load() != c.requests {
			t.Errorf("%s with %d files: %d samples, %d requests", c.set, len(c.there), ds.Train.Len(), requests.Load())
		}
	}
}

func TestNoNetworkSaysWhatToDo(t *testing.T) {
	fake(t)
	srv := httptest.NewServer(nil)
	srv.Close() // nobody listens there now
	cache := t.TempDir()
	_, err := Open("mnist", Options{Cache: cache, Dir: "/nowhere", Download: true, Mirror: srv.URL})
	var missing *MissingError
	if !errors.As(err, &missing) {
		t.Fatal(err)
	}
	for _, want := range []string{"train-images, train-labels, t10k-images, t10k-labels", filepath.Join(cache, "mnist"), "/nowhere", srv.URL + "/mnist/train-images",
		"refused", "--data-dir", "GRADLAB_DATA_DIR", "digits or synthetic"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	if _, err := Fetch(t.Context(), "imagenet", Options{Cache: cache}); err == nil || !strings.Contains(err.Error(), "image-net.org") {
		t.Error(err)
	}
	if loc, err := Fetch(t.Context(), "digits", Options{}); err != nil || !loc.Found || loc.Origin != BuiltIn {
		t.Error(loc, err)
	}
	if _, err := Fetch(t.Context(), "mnist", Options{}); err == nil || !strings.Contains(err.Error(), "no folder") {
		t.Error(err)
	}
}
