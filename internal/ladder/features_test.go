//go:build ladder

package ladder

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// An instruction says by its encoding and its name what it needs of an amd64 processor:
// EVEX (62) is AVX-512, VEX (c4, c5) is AVX or a set of that time. What is in no list below is
// part of the first of these, or of every processor.
var (
	ofFMA     = regexp.MustCompile(`^vfn?m(add|sub)`)
	ofF16C    = regexp.MustCompile(`^vcvt(ph2ps|ps2ph)$`)
	ofBMI2    = regexp.MustCompile(`^(pdep|pext|mulx|rorx|sarx|shlx|shrx|bzhi)$`)
	ofBF16    = regexp.MustCompile(`bf16`)
	ofDQ      = regexp.MustCompile(`^(vpmullq|vcvtt?p[sd]2u?qq|vcvtu?qq2p[sd]|v(extract|insert)[fi](32x8|64x2)|vbroadcast[fi](32x2|32x8|64x2)|vpmov[dq]2m|vpmovm2[dq]|v(and|andn|or|xor)p[sd]|v(range|reduce|fpclass)p[sd]|k(mov|and|andn|or|xor|xnor|not|shift[lr]|ortest)b|k(test|add)[bw])$`)
	ofBW      = regexp.MustCompile(`^(vmovdqu(8|16)|vperm[it]?2?w|vps(ll|rl|ra)vw|vpmov(w|sw|usw)b|vpblendm[bw]|vdbpsadbw|vptestn?m[bw]|vpmov[bw]2m|vpmovm2[bw]|k(mov|and|andn|or|xor|xnor|not|shift[lr]|ortest|test|add)[dq]|kunpck(wd|dq)|vpcmpu?[bw]|vp(add|sub)u?s?[bw]|vpmul(l|h|hu|hrs)w|vp(min|max)[su][bw]|vpabs[bw]|vpcmp(eq|gt)[bw]|vpavg[bw]|vps(ll|rl|ra)w|vpshufb|vpshuf[lh]w|vpunpck[lh](bw|wd)|vpack[su]s(wb|dw)|vpmadd(wd|ubsw)|vpalignr|vpbroadcast[bw]|vpsadbw|vpmov[sz]xbw)$`)
	ofAVX2    = regexp.MustCompile(`^(vpbroadcast[bwdq]|vperm([dq]|p[sd])|v(insert|extract)i128|vbroadcasti128|vps(ll|rl|ra)v[dq]|vpmaskmov[dq]|vpblendd|vperm2i128|vp?gather[dq](ps|pd|d|q))$`)
	integer   = regexp.MustCompile(`^vp`)
	notAVX2   = regexp.MustCompile(`^(vpermilp[sd]|vperm2f128|vptest)$`)
	scalar    = regexp.MustCompile(`s[sd]$|^v(pextr|pinsr)|^vmov[dq]$`)
	baseline  = regexp.MustCompile(`^(mov[a-z0-9]*|lea|add|sub|and|or|xor|cmp|test|inc|dec|neg|not|imul|mul|sbb|adc|sh[lr]|sa[lr]|ro[lr]|bt|set[a-z]+|cmov[a-z]+|j[a-z]+|ret|nop[a-z]*|call|push|pop|prefetch[a-z0-9]*|stmxcsr|ldmxcsr|cpuid|xchg|int3|ud2|cwtl|cltq|data16|cs|rep)[bwlq]?$`)
	register  = regexp.MustCompile(`\b([xyz])mm\d+`)
	oneBroads = regexp.MustCompile(`^vbroadcasts[sd]$`)
)

// needs are the features of one instruction.
func needs(code []byte, name, operands string) ([]string, error) {
	vectors := map[string]bool{}
	for _, m := range register.FindAllStringSubmatch(operands, -1) {
		vectors[m[1]] = true
	}
	for len(code) > 0 && slices.Contains([]byte{0x66, 0xf2, 0xf3}, code[0]) {
		code = code[1:]
	}
	switch {
	case code[0] == 0x62 || code[0]&^1 == 0xc4 && name[0] == 'k':
		out := []string{"AVX512F"}
		switch {
		case ofDQ.MatchString(name):
			out = append(out, "AVX512DQ")
		case ofBW.MatchString(name):
			out = append(out, "AVX512BW")
		case ofBF16.MatchString(name):
			out = append(out, "AVX512BF16")
		}
		if len(vectors) > 0 && !vectors["z"] && !scalar.MatchString(name) {
			out = append(out, "AVX512VL")
		}
		return out, nil
	case code[0]&^1 == 0xc4:
		switch {
		case ofBMI2.MatchString(name):
			return []string{"BMI2"}, nil
		case ofFMA.MatchString(name):
			return []string{"FMA"}, nil
		case ofF16C.MatchString(name):
			return []string{"F16C"}, nil
		case ofAVX2.MatchString(name), vectors["y"] && integer.MatchString(name) && !notAVX2.MatchString(name),
			oneBroads.MatchString(name) && !strings.Contains(operands, "("):
			return []string{"AVX2"}, nil
		}
		return []string{"AVX"}, nil
	case name == "popcnt":
		return []string{"POPCNT"}, nil
	case baseline.MatchString(name):
		return nil, nil
	}
	return nil, fmt.Errorf("nobody has said what %s %s needs", name, operands)
}

// Kernels execute what their assembly says they require, and nothing else.
func TestKernelsNeedWhatTheySay(t *testing.T) {
	t.Parallel()
	objdump, err := exec.LookPath("objdump")
	if err != nil || runtime.GOARCH != "amd64" {
		t.Skip("no objdump for amd64: instructions are not looked at (apt-get install binutils)")
	}
	for _, pkg := range []string{"f32", "codec", "conv", "pool"} {
		said := required(t, filepath.Join("..", pkg, "kernels_amd64.s"))
		binary := filepath.Join(t.TempDir(), pkg+".test")
		if _, err := goTool("amd64", "test", "-c", "-o", binary, module+"/internal/"+pkg); err != nil {
			t.Fatal(err)
		}
		for name, want := range said {
			from, to := extent(t, binary, module+"/internal/"+pkg+"."+name)
			out, err := exec.Command(objdump, "-d", "--insn-width=16", fmt.Sprintf("--start-address=%#x", from), fmt.Sprintf("--stop-address=%#x", to), binary).Output()
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for line := range strings.Lines(string(out)) {
				cells := strings.Split(strings.TrimRight(line, "\n"), "\t")
				if len(cells) < 3 {
					continue
				}
				var code []byte
				for _, x := range strings.Fields(cells[1]) {
					var b byte
					fmt.Sscanf(x, "%02x", &b)
					code = append(code, b)
				}
				mnemonic, operands, _ := strings.Cut(strings.TrimSpace(cells[2]), " ")
				fs, err := needs(code, mnemonic, operands)
				if err != nil {
					t.Errorf("%s.%s: %v", pkg, name, err)
				}
				found = append(found, fs...)
			}
			slices.Sort(found)
			if found = slices.Compact(found); !slices.Equal(found, want) {
				t.Errorf("%s.%s says that it needs %v, its instructions need %v", pkg, name, want, found)
			}
		}
	}
}

// required is what each kernel of an assembly file says it requires beyond every amd64.
func required(t *testing.T, path string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^(?:// Requires: (.*)\n)?TEXT ·(\w+)\(SB\)`).FindAllStringSubmatch(string(text), -1) {
		var fs []string
		for _, f := range strings.Split(m[1], ", ") {
			switch f {
			case "", "SSE", "SSE2", "CMOV", "MMX+", "CPUID":
			case "FMA3":
				fs = append(fs, "FMA")
			default:
				fs = append(fs, f)
			}
		}
		slices.Sort(fs)
		out[m[2]] = fs
	}
	return out
}

// extent is where the code of a symbol lies.
func extent(t *testing.T, binary, symbol string) (from, to uint64) {
	t.Helper()
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Name == symbol+".abi0" || s.Name == symbol {
			if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Size > 0 && (from == 0 || strings.HasSuffix(s.Name, ".abi0")) {
				from, to = s.Value, s.Value+s.Size
			}
		}
	}
	if from == 0 {
		t.Errorf("%s is not in %s", symbol, binary)
	}
	return from, to
}
