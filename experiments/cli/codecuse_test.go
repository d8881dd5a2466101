package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/patience"
)

// Whatever codec is asked about, what is said to be typed next is accepted, and
// has a memory around it where it needs one.
func TestCodecSaysWhatToType(t *testing.T) {
	t.Parallel()
	patience.Alone(t)
	line := regexp.MustCompile(`gradlab run quickstart 'codec=raw,(.*)'( optimizer=sgd)?   #`)
	of := func(spec string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := Main([]string{"codec", spec}, &out, &errs); code != ExitOK {
			t.Fatalf("%s: exit %d: %s", spec, code, &errs)
		}
		found := line.FindStringSubmatch(out.String())
		if found == nil {
			t.Fatalf("%s: no command in\n%s", spec, &out)
		}
		if !strings.Contains(out.String(), "gradlab codec check '"+found[1]+"'") {
			t.Errorf("%s: not told how to prove %s", spec, found[1])
		}
		f, err := compress.Parse(found[1])
		if err != nil {
			t.Fatalf("%s: %v", spec, err)
		}
		for _, b := range []compress.Block{{Rows: 1, Cols: 10}, {Rows: 512, Cols: 64}} {
			if _, err := f.New(b); err != nil {
				t.Errorf("%s: %v", spec, err)
			}
		}
		return found[1] + found[2]
	}
	for _, name := range compress.Families.Names() {
		of(name)
	}
	for spec, want := range map[string]string{
		"topk(keep=0.01)":              "feedback(topk(keep=0.01))",
		"sign":                         "feedback(sign)",
		"powersgd(rank=2)":             "feedback(powersgd(rank=2))",
		"threshold(tau=0.1)":           "feedback(threshold(tau=0.1))",
		"qsgd(bits=4)":                 "qsgd(bits=4)",
		"bf16":                         "bf16",
		"raw":                          "raw",
		"vote":                         "vote",
		"feedback(sign)":               "feedback(sign)",
		"accumulate(feedback(topk))":   "accumulate(feedback(topk(keep=0.01)),every=4)",
		"strom(tau=0.1)":               "strom(tau=0.1)",
		"dgc(keep=0.01)":               "dgc(keep=0.01) optimizer=sgd",
		"intsum(bits=4,round=nearest)": "feedback(intsum(bits=4,round=nearest))",
	} {
		if got := of(spec); got != want {
			t.Errorf("%s: says to type %s, want %s", spec, got, want)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"codec", "tokp"}, `did you mean "topk"`},
		{[]string{"codec", "topk", "sign"}, "one codec"},
		{[]string{"codec", "feedback(qsgd(bits=2))"}, "no contraction"},
	} {
		var out, errs bytes.Buffer
		if code := Main(c.args, &out, &errs); code != ExitConfig || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%v: exit %d, %s", c.args, code, &errs)
		}
	}
}
