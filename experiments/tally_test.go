package experiments

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
)

// A run of codec raw sends what raw would, to the byte, and one of bf16 what bf16
// would, whatever makes the exchange. So compression is known without such a run. With local
// steps raw would have sent the gradient of every step, where one message stands for several.
func TestRawBytesAreThoseOfRaw(t *testing.T) {
	patience.Virtual(t)
	more := map[string][]string{
		"parts":    {"mode=server", "policy=bsp", "overlap=buckets(bytes=2000)", "servers=2"},
		"gather":   {"mode=gather"},
		"tree":     {"mode=reduce", "topology=tree"},
		"buckets":  {"mode=reduce", "overlap=buckets(bytes=2000)"},
		"priority": {"mode=reduce", "overlap=priority(bytes=2000,partition=1000)"},
		"choco":    {"mode=choco"},
		"buffers":  {"mode=reduce", "model=resnet20", "data=synthetic(dim=192,side=8,n=60,test=10)", "steps=2", "batch=2"},
	}
	for name, keys := range ways {
		more[name] = keys
	}
	// would is what a codec would have sent, of what was sent in a way of training.
	would := func(way string, r *Result) uint64 {
		steps := map[string]uint64{"localsgd": 3, "downpour": 2, "easgd": 2}[way] // a message
		return r.Crossed(max(1, steps)*r.BytesUp, r.BytesDown)
	}
	for name, keys := range more {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw := mustExecute(t, append(keys, "eval_every=0", "codec=raw", "down_codec=raw")...)
			if got := would(name, raw); raw.RawBytes != got || got == 0 {
				t.Errorf("raw sent %d bytes, and would have sent %d", got, raw.RawBytes)
			}
			keys = append(keys[:len(keys):len(keys)], "eval_every=0", "codec=bf16")
			if raw.Servers {
				keys = append(keys, "down_codec=bf16")
			}
			half := mustExecute(t, keys...)
			if got := would(name, half); half.BF16Bytes != got {
				t.Errorf("bf16 sent %d bytes, and would have sent %d", got, half.BF16Bytes)
			}
		})
	}
}

// Codecs change what is sent, and not what raw would have sent: synchronous runs
// agree on it, one that was stopped too.
func TestRawBytesDoNotDependOnTheCodec(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][]string{
		"server": {"mode=server", "servers=2"}, "reduce": {"mode=reduce"}, "gather": {"mode=gather"}, "localsgd": {"mode=localsgd(h=3)"},
	} {
		raw := mustExecute(t, append(keys, "codec=raw")...)
		for _, codec := range []string{"qsgd(bits=4)", "feedback(topk(keep=0.1))", "feedback(powersgd(rank=1))"} {
			r := mustExecute(t, append(keys, "codec="+codec)...)
			if r.RawBytes != raw.RawBytes || r.BF16Bytes != raw.BF16Bytes {
				t.Errorf("%s, %s: raw would have sent %d bytes, and sends %d up and %d down", name, codec, r.RawBytes, raw.BytesUp, raw.BytesDown)
			}
			if x, known := r.Compression(r.RawBytes); !known || x <= 1 {
				t.Errorf("%s, %s: compression %v", name, codec, x)
			}
		}
	}
}

// What is told while a run goes on counts the bytes of all servers, and so ends at
// those of the result.
func TestProgressCountsAllServers(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]string{{"policy=bsp"}, {"policy=asp", "device.law=lognormal(sigma=0.5)"}} {
		r := mustExecute(t, append(keys, "mode=server", "servers=3", "codec=qsgd(bits=4)", "steps=40")...)
		b, err := os.ReadFile(filepath.Join(r.Folder, "metrics.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		last, n := Line{}, 0
		for _, m := range ParseMetrics(bytes.TrimSpace(b)) {
			if m.Progress == nil {
				continue
			}
			if n++; last.Progress != nil && (m.Progress.Step <= last.Progress.Step || m.Progress.BytesUp < last.Progress.BytesUp) {
				t.Errorf("step %d with %d bytes comes behind step %d with %d", m.Progress.Step, m.Progress.BytesUp, last.Progress.Step, last.Progress.BytesUp)
			}
			last = m
		}
		// The pushes and answers of two other workers may be under way, no more: of
		// three workers one made the last update.
		if p := last.Progress; n != 40 || p.Step != 40 || p.BytesUp < r.BytesUp*40/43 || p.BytesUp > r.BytesUp || p.BytesDown < r.BytesDown*40/44 || p.BytesDown > r.BytesDown {
			t.Errorf("%v: %d reports, the last at step %d of %d and %d bytes; the run sent %d and %d", keys, n, p.Step, p.BytesUp, p.BytesDown, r.BytesUp, r.BytesDown)
		}
	}
}
