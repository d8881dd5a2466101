package train_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// A codec that uses matrices is given rows of them, any other pieces as equal as
// can be; a vector may be cut anywhere.
func TestCuts(t *testing.T) {
	t.Parallel()
	var l sgd.Layout
	l.Add("a.weight", sgd.Weight, 30, 40)
	l.Add("a.bias", sgd.Bias, 1, 33)
	l.Add("b.weight", sgd.Weight, 50, 20)
	l.Add("b.mean", sgd.Buffer, 1, 4)
	words := func(cuts [][]wire.Cut) string {
		var out []string
		for _, list := range cuts {
			for _, c := range list {
				out = append(out, fmt.Sprintf("%s %d×%d", c.Block.Name, c.Block.Rows, c.Block.Cols))
			}
			out = append(out, "|")
		}
		return strings.Join(out, ", ")
	}
	const anywhere = "a.weight[0:1119] 1×1119, |, a.weight[1119:1200] 1×81, a.bias 1×33, b.weight 50×20, b.mean 1×4, |"
	const rows = "a.weight[0:1120] 28×40, |, a.weight[1120:1200] 2×40, a.bias 1×33, b.weight 50×20, b.mean 1×4, |"
	for codec, want := range map[string]string{
		"raw": anywhere, "qsgd(bits=4)": anywhere, "feedback(topk(keep=0.01))": anywhere, "dct(topk(keep=0.1),side=1)": anywhere,
		"powersgd(rank=1)": rows, "feedback(powersgd(rank=2))": rows, "bysize(powersgd(rank=1),bf16,limit=10)": rows, "dct": rows,
		"powersgd(rank=20)": anywhere, // shrinks nothing
	} {
		f := compress.Families.MustParse(codec)
		if got := words(wire.Cuts(l, ps.Balanced{}, 2, f, compress.Raw{})); got != want {
			t.Errorf("%s: %s, want %s", codec, got, want)
		}
		if got := words(wire.Cuts(l, ps.Balanced{}, 2, compress.Raw{}, f)); got != want {
			t.Errorf("down_codec %s: %s, want %s", codec, got, want)
		}
	}
}

// What a codec sends as it is, is told, with how much it is.
func TestUncompressed(t *testing.T) {
	t.Parallel()
	j := job(t, mode("server"), with("feedback(powersgd(rank=1))"))
	j.Prepare()
	l := j.Model.Layout()
	var values, tensors int
	bytes := 0
	for _, s := range l.Spans {
		b := compress.Block{Name: s.Name, Role: s.Role.String(), Rows: s.Rows, Cols: s.Cols}
		if c, _ := compress.ClaimsOf(j.Codec, b); c.Raw {
			tensors, values = tensors+1, values+s.Len()
			bytes += 4 * s.Len()
		} else {
			bytes += 4 * (s.Rows + s.Cols)
		}
	}
	u := j.Uncompressed()
	if u == nil || tensors == 0 || u.Tensors != tensors || u.Values != values || u.Bytes != 4*values || u.Share != float64(4*values)/float64(bytes) {
		t.Fatalf("%+v, want %d tensors of %d values, of %d bytes", u, tensors, values, bytes)
	}
	if text := u.String(); !strings.Contains(text, u.Names[0]) || !strings.Contains(text, fmt.Sprint(u.Bytes)) {
		t.Error(text)
	}
	for _, codec := range []string{"raw", "sign"} {
		with(codec)(j)
		if u := j.Uncompressed(); u != nil {
			t.Errorf("%s: %+v", codec, u)
		}
	}
}
