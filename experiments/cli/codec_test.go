package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

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
