package cli

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/patience"
)

// A codec is judged from the command line alone: claims, checks, errors, speed.
func TestCodecCheck(t *testing.T) {
	patience.Alone(t)
	var out, errs bytes.Buffer
	if code := Main([]string{"codec", "check", "--json", "feedback(topk(keep=0.05,values=bf16))"}, &out, &errs); code != ExitOK {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	var r codecReport
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Spec != "feedback(topk(keep=0.05,values=bf16))" || len(r.Checks) < 19 || r.Failed != 0 || !r.Claims.Stateful {
		t.Errorf("report %+v", r)
	}
	if len(r.Errors) < 9 || r.Errors[0].Bits < 0.8 || r.Errors[0].Bits > 1.3 || r.Speed.Encode <= 0 || r.Speed.Decode <= 0 {
		t.Errorf("measured %+v, %+v", r.Errors, r.Speed)
	}
	if x := r.Exchange; x.Ranks != 3 || x.Rounds != 1 || x.Bytes <= 0 || x.Bytes > float64(x.Claimed) || !x.Bound || len(x.Asked) != 1 || x.Asked[0].Op != "gather" {
		t.Errorf("exchange %+v", x)
	}
	out.Reset()
	if code := Main([]string{"codec", "check", "natural"}, &out, &errs); code != ExitOK || !strings.Contains(out.String(), "0.125") ||
		!strings.Contains(out.String(), "an exchange of 3 ranks: 73728 bytes a rank and step, rounds 1 (73728 bytes claimed): gathered parts of 73728 bytes\n") {
		t.Errorf("exit %d: %s", code, &out)
	}
	for arg, want := range map[string]string{
		"topk(kep=1)":                 `did you mean "keep"`,
		"feedback(qsgd(bits=2))":      "no contraction",
		"eden(bits=9)":                "want 1 to 4",
		"feedback(sign(scale=nonsuch": "",
	} {
		errs.Reset()
		if code := Main([]string{"codec", "check", arg}, &out, &errs); code != ExitConfig || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: exit %d, %s", arg, code, &errs)
		}
	}
}

// panicky writes beyond its buffer on matrices.
type panicky struct{ compress.Raw }

func (f panicky) New(b compress.Block) (compress.Codec, error) {
	c, err := f.Raw.New(b)
	return panickyCodec{c, b}, err
}

type panickyCodec struct {
	compress.Codec
	b compress.Block
}

func (c panickyCodec) Append(dst []byte, g []float32, s compress.Step) ([]byte, error) {
	if c.b.Rows > 8 {
		g[len(g)] = 0
	}
	return c.Codec.Append(dst, g, s)
}

// Of a codec that panics the check says in which line and on which block, and goes on.
func TestCodecCheckOfAPanic(t *testing.T) {
	patience.Alone(t)
	r, err := checkCodec(panicky{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := r.write(&out); err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`FAILED \w+: panic at codec_test\.go:\d+: runtime error: index out of range \[\d+\] with length \d+ \(Append, a block of \d+×\d+, step \d+\)\n`)
	if !said.Match(out.Bytes()) || !strings.Contains(out.String(), "checks hold") {
		t.Errorf("of a panic it says\n%s", &out)
	}
	for rate, want := range map[float64]string{21.4e6: "21.4 MB/s", 3.36e9: "3.36 GB/s", 12e3: "0.012 MB/s"} {
		if got := bytesPerSecond(rate); got != want {
			t.Errorf("%g bytes a second are %s, want %s", rate, got, want)
		}
	}
}
