package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/internal/portable"
	"github.com/gradlab/gradlab/registry"
)

// Axis is a key and the values it takes, one run for each.
type Axis struct {
	Key    string
	Values []string
}

// Values reads the values of an axis, separated by commas outside brackets. Makers
// stand for several: range(1,4) and range(0,1,0.25) are numbers from … up to and
// with …, lin(0,1,5) so many numbers in equal steps, log(1e-4,1e-1,4) so many in
// equal ratios, double(1,64) doublings, choice(a,b) a list within the list. They
// may stand for a value by themselves or inside spec text,
//
//	topk(keep=choice(0.01,0.1))   topk(keep=0.01), topk(keep=0.1)
//
// where several multiply, the last one fastest. Text in double quotes is taken as
// it is: "log(0.5)" is a part named log. Inside brackets it keeps its quotes, which
// spec text reads: external(command="python3 train.py").
func Values(text string) ([]string, error) {
	var out []string
	for _, v := range registry.SplitTop(text) {
		more, err := makeAll(v, 0)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v, err)
		}
		if len(out)+len(more) > maxValues {
			return nil, fmt.Errorf("%s: more than %d values", v, maxValues)
		}
		out = append(out, more...)
	}
	if len(out) == 0 || slices.Contains(out, "") {
		return nil, fmt.Errorf("a value is missing in %q", text)
	}
	return out, nil
}

// maxValues bounds what an axis multiplies to, maxNested how deep makers stand in
// each other.
const (
	maxValues = 10_000
	maxNested = 16
)

// makeAll multiplies out what makers in text stand for.
func makeAll(text string, depth int) ([]string, error) {
	if depth > maxNested {
		return nil, fmt.Errorf("makers stand more than %d deep in each other", maxNested)
	}
	out := []string{""}
	var same strings.Builder // what follows in all of them
	multiply := func(parts []string) error {
		if len(out)*len(parts) > maxValues {
			return fmt.Errorf("more than %d values", maxValues)
		}
		var next []string
		for _, head := range out {
			for _, tail := range parts {
				next = append(next, head+same.String()+tail)
			}
		}
		out = next
		same.Reset()
		return nil
	}
	for i, brackets := 0, 0; i < len(text); {
		switch text[i] {
		case '"':
			end := registry.Quoted(text[i:])
			if end == 0 {
				return nil, errors.New(`a double quote has no other`)
			}
			if brackets > 0 {
				same.WriteString(text[i : i+end])
			} else {
				same.WriteString(text[i+1 : i+end-1])
			}
			i += end
			continue
		case '(', '[':
			brackets++
		case ')', ']':
			brackets--
		}
		word := wordAt(text[i:])
		if word == "" {
			same.WriteByte(text[i])
			i++
			continue
		}
		open := i + len(word)
		rest := strings.TrimLeft(text[open:], " ")
		do := makers[word]
		if do == nil || !strings.HasPrefix(rest, "(") {
			same.WriteString(word)
			i = open
			continue
		}
		open = len(text) - len(rest)
		end := closing(text, open)
		if end < 0 {
			return nil, fmt.Errorf("the bracket after %s is not closed", word)
		}
		made, err := do(registry.SplitTop(text[open+1 : end]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", word, err)
		}
		var all []string
		for _, m := range made {
			inner := []string{m}
			if word == "choice" { // of others, each may have some
				if inner, err = makeAll(m, depth+1); err != nil {
					return nil, err
				}
			}
			if all = append(all, inner...); len(all) > maxValues {
				return nil, fmt.Errorf("more than %d values", maxValues)
			}
		}
		if err := multiply(all); err != nil {
			return nil, err
		}
		i = end + 1
	}
	return out, multiply([]string{""})
}

// wordAt is the word that text begins with, "" if it begins with none.
func wordAt(text string) string {
	if i := strings.IndexAny(text, "()[],=\" \t\n"); i >= 0 {
		return text[:i]
	}
	return text
}

// closing is where the bracket that opens at a position closes, −1 if nowhere.
func closing(text string, at int) int {
	depth := 0
	for ; at < len(text); at++ {
		switch text[at] {
		case '"':
			at += max(0, registry.Quoted(text[at:])-1)
		case '(', '[':
			depth++
		case ')', ']':
			if depth--; depth == 0 {
				return at
			}
		}
	}
	return -1
}

var makers = map[string]func(args []string) ([]string, error){
	"choice": func(args []string) ([]string, error) {
		if len(args) == 0 || slices.Contains(args, "") {
			return nil, errors.New("want choice(value,value,…)")
		}
		return args, nil
	},
	"range": func(args []string) ([]string, error) {
		x, err := floats(args, "range(from,to) or range(from,to,step)", 2, 3)
		if err != nil {
			return nil, err
		}
		step := 1.0
		if len(x) == 3 {
			step = x[2]
		}
		if !(step > 0) || x[1] < x[0] {
			return nil, errors.New("want a step above 0 and an end that is not below the beginning")
		}
		n := math.Floor(float64((x[1]-x[0])/step*(1+1e-12)) + 1e-9)
		return spaced(n+1, func(i float64) float64 { return x[0] + float64(i*step) })
	},
	"lin": func(args []string) ([]string, error) {
		x, err := floats(args, "lin(from,to,count)", 3, 3)
		if err != nil {
			return nil, err
		}
		if x[2] < 2 || x[2] != math.Trunc(x[2]) || x[0] == x[1] {
			return nil, errors.New("want two unequal numbers and a count of at least 2")
		}
		return spaced(x[2], func(i float64) float64 { return x[0] + (x[1]-x[0])*i/(x[2]-1) })
	},
	"double": func(args []string) ([]string, error) {
		x, err := floats(args, "double(from,to)", 2, 2)
		if err != nil {
			return nil, err
		}
		if !(x[0] > 0) || x[1] < x[0] {
			return nil, errors.New("want a beginning above 0 and an end that is not below it")
		}
		return spaced(math.Floor(portable.Log2(x[1]/x[0])+1e-9)+1, func(i float64) float64 { return x[0] * portable.Exp2(i) })
	},
	"log": func(args []string) ([]string, error) {
		x, err := floats(args, "log(from,to,count)", 3, 3)
		if err != nil {
			return nil, err
		}
		if !(x[0] > 0) || !(x[1] > 0) || x[2] < 2 || x[2] != math.Trunc(x[2]) {
			return nil, errors.New("want two numbers above 0 and a count of at least 2")
		}
		return spaced(x[2], func(i float64) float64 { return x[0] * portable.Pow(x[1]/x[0], i/(x[2]-1)) })
	},
}

func floats(args []string, form string, least, most int) ([]float64, error) {
	if len(args) < least || len(args) > most {
		return nil, fmt.Errorf("want %s", form)
	}
	var out []float64
	for _, a := range args {
		x, err := strconv.ParseFloat(a, 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("want %s with numbers, not %q", form, a)
		}
		if math.Abs(x) > 1<<53 && strings.Trim(a, "+-0123456789") == "" {
			return nil, fmt.Errorf("want %s with numbers; of whole ones above 2^53, such as %s, some cannot be told apart: list the values", form, a)
		}
		out = append(out, x)
	}
	return out, nil
}

// spaced writes n numbers, without the noise of their last digits. Whole ones have none.
func spaced(n float64, at func(i float64) float64) ([]string, error) {
	if n > maxValues {
		return nil, fmt.Errorf("more than %d values", maxValues)
	}
	var out []string
	for i := range int(n) {
		x := at(float64(i))
		if x != math.Trunc(x) || math.Abs(x) > 1<<53 {
			x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 12, 64), 64)
		}
		out = append(out, strconv.FormatFloat(x, 'f', -1, 64))
	}
	return out, nil
}

// oneList makes one value of several values of key observe. Runs that differ in it alone
// are the same run, so it is no axis: observe: [gap, trace] in a recipe, and
// observe=gap,trace on a command line, are one run that records both.
func (a assignment) oneList() assignment {
	if a.key != "observe" || len(a.values) < 2 {
		return a
	}
	var words []string
	for _, v := range a.values {
		words = append(words, strings.Trim(strings.TrimSpace(v), "[]"))
	}
	a.values = []string{"[" + strings.Join(words, ",") + "]"}
	return a
}
