//go:build !noasm

package f32

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/gradlab/gradlab/internal/cpu"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/portable"
)

// An interpreter for the few instructions of kernels_amd64.s, so that kernels
// are verified on machines that cannot run them. It reads the file that is
// assembled, checks every address, and is itself held against the hardware
// with the kernels that do run.

// instruction is one line of a function.
type instruction struct {
	op   string
	args []string
	to   int // of a jump
}

var functionStart = regexp.MustCompile(`^TEXT ·(\w+)\(SB\)`)

// parseAssembly returns the instructions of all functions of a file.
func parseAssembly(t *testing.T, path string) map[string][]instruction {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]instruction{}
	name, labels := "", map[string]int{}
	link := func() {
		for i, in := range out[name] {
			if strings.HasPrefix(in.op, "J") {
				to, ok := labels[in.args[0]]
				if !ok {
					t.Fatalf("%s: no label %s", name, in.args[0])
				}
				out[name][i].to = to
			}
		}
	}
	for line := range strings.Lines(string(text)) {
		if m := functionStart.FindStringSubmatch(line); m != nil {
			link()
			name, labels = m[1], map[string]int{}
			continue
		}
		line, _, _ = strings.Cut(strings.TrimSpace(line), "//")
		if label, ok := strings.CutSuffix(line, ":"); ok {
			labels[label] = len(out[name])
		} else if op, rest, _ := strings.Cut(line, " "); name != "" && op != "" {
			in := instruction{op: op}
			for arg := range strings.SplitSeq(rest, ",") {
				in.args = append(in.args, strings.TrimSpace(arg))
			}
			out[name] = append(out[name], in)
		}
	}
	link()
	return out
}

// machine is the state of a processor: addresses are invented, and memory is
// what has been put there.
type machine struct {
	gp          map[string]uint64
	vec         [32][16]float32
	k           [8]uint16
	zero, minus bool
	control     uint32 // MXCSR
	memory      []segment
}

type segment struct {
	base uint64
	data []byte
}

// put places bytes behind all others, far enough away to notice overruns.
func (m *machine) put(data []byte) uint64 {
	base := uint64(1 << 20)
	if n := len(m.memory); n > 0 {
		base = m.memory[n-1].base + uint64(len(m.memory[n-1].data)) + 4096
	}
	m.memory = append(m.memory, segment{base, data})
	return base
}

// at returns n bytes of memory.
func (m *machine) at(address uint64, n int) []byte {
	for _, s := range m.memory {
		if off := address - s.base; address >= s.base && off+uint64(n) <= uint64(len(s.data)) {
			return s.data[off:][:n]
		}
	}
	panic(fmt.Sprintf("address %#x of %d bytes is nowhere", address, n))
}

var reference = regexp.MustCompile(`^(?:\w+\+)?(-?\d*)\((\w+)\)(?:\((\w+)\*(\d)\))?$`)

// address returns the address an operand refers to, if it does.
func (m *machine) address(arg string) (uint64, bool) {
	x := reference.FindStringSubmatch(arg)
	if x == nil {
		return 0, false
	}
	var disp, scale int
	if x[1] != "" {
		disp = must(strconv.Atoi(x[1]))
	}
	address := m.gp[register(x[2])] + uint64(disp)
	if x[3] != "" {
		scale = must(strconv.Atoi(x[4]))
		address += m.gp[register(x[3])] * uint64(scale)
	}
	return address, true
}

// where is the address of an operand that is one.
func where(address uint64, ok bool) uint64 {
	if !ok {
		panic("an operand is not in memory")
	}
	return address
}

func must(n int, err error) int {
	if err != nil {
		panic(err)
	}
	return n
}

// register is the name of the whole of a general register: R8B is part of R8,
// CL of CX.
func register(name string) string {
	if strings.HasPrefix(name, "R") {
		return strings.TrimSuffix(name, "B")
	}
	if len(name) == 2 && name[1] == 'L' {
		return name[:1] + "X"
	}
	return name
}

// word reads an integer operand of n bytes.
func (m *machine) word(arg string, n int) uint64 {
	if imm, ok := strings.CutPrefix(arg, "$"); ok {
		v, err := strconv.ParseInt(imm, 0, 64)
		if err != nil {
			panic(err)
		}
		return uint64(v)
	}
	if address, ok := m.address(arg); ok {
		var b [8]byte
		copy(b[:], m.at(address, n))
		return binary.LittleEndian.Uint64(b[:])
	}
	v, ok := m.gp[register(arg)]
	if !ok {
		panic("register " + arg + " is read before it is written")
	}
	return v << (64 - 8*n) >> (64 - 8*n)
}

func (m *machine) setWord(arg string, v uint64) {
	if address, ok := m.address(arg); ok {
		binary.LittleEndian.PutUint64(m.at(address, 8), v)
		return
	}
	m.gp[register(arg)] = v
}

func (m *machine) flags(v uint64) { m.zero, m.minus = v == 0, int64(v) < 0 }

// vector parses a vector register: its number and how many floats of it.
func vector(arg string) (i, lanes int, ok bool) {
	lanes = map[byte]int{'X': 4, 'Y': 8, 'Z': 16}[arg[0]]
	i, err := strconv.Atoi(arg[1:])
	return i, lanes, lanes > 0 && err == nil
}

// floats reads a vector operand, in memory only the lanes that keep allows.
func (m *machine) floats(arg string, lanes int, keep uint16) (v [16]float32) {
	if i, _, ok := vector(arg); ok {
		return m.vec[i]
	}
	address, _ := m.address(arg)
	for l := range lanes {
		if keep>>l&1 != 0 {
			v[l] = math.Float32frombits(binary.LittleEndian.Uint32(m.at(address+uint64(4*l), 4)))
		}
	}
	return v
}

// setFloats writes a vector operand. Lanes of a register beyond are cleared.
func (m *machine) setFloats(arg string, v [16]float32, lanes int, keep uint16) {
	if i, _, ok := vector(arg); ok {
		clear(v[lanes:])
		m.vec[i] = v
		return
	}
	address, _ := m.address(arg)
	for l := range lanes {
		if keep>>l&1 != 0 {
			binary.LittleEndian.PutUint32(m.at(address+uint64(4*l), 4), math.Float32bits(v[l]))
		}
	}
}

// width is the number of lanes an instruction works on.
func width(args []string) int {
	for _, a := range args {
		if _, lanes, ok := vector(a); ok {
			return lanes
		}
	}
	panic("no vector register")
}

// run executes a function of one argument until it returns, and fails the test
// if it leaves the vector state dirty.
func (m *machine) run(code []instruction, argument uint64) {
	m.control = masked
	frame := make([]byte, 64)
	var arg [8]byte
	binary.LittleEndian.PutUint64(arg[:], argument)
	m.gp = map[string]uint64{"SP": m.put(frame), "FP": m.put(arg[:])}
	clean := true
	all := uint16(math.MaxUint16)
	for pc := 0; ; {
		in := code[pc]
		pc++
		a := in.args
		jump := false
		switch in.op {
		case "MOVQ":
			m.setWord(a[1], m.word(a[0], 8))
		case "MOVB":
			m.setWord(a[1], m.word(a[0], 1))
		case "LEAQ":
			address, _ := m.address(a[0])
			m.setWord(a[1], address)
		case "ADDQ":
			m.setWord(a[1], m.word(a[1], 8)+m.word(a[0], 8))
			m.flags(m.word(a[1], 8))
		case "SUBQ":
			m.setWord(a[1], m.word(a[1], 8)-m.word(a[0], 8))
			m.flags(m.word(a[1], 8))
		case "DECQ":
			m.setWord(a[0], m.word(a[0], 8)-1)
			m.flags(m.word(a[0], 8))
		case "SHLQ":
			m.setWord(a[1], m.word(a[1], 8)<<m.word(a[0], 1))
		case "XORQ":
			if a[0] != a[1] {
				panic("XORQ of two registers")
			}
			m.setWord(a[1], 0)
		case "CMPQ":
			m.flags(m.word(a[0], 8) - m.word(a[1], 8))
		case "TESTQ":
			m.flags(m.word(a[0], 8) & m.word(a[1], 8))
		case "TESTB":
			m.flags(m.word(a[0], 1) & m.word(a[1], 1))
		case "JZ", "JEQ":
			jump = m.zero
		case "JNZ":
			jump = !m.zero
		case "JLT":
			jump = m.minus
		case "JGE":
			jump = !m.minus
		case "JMP":
			jump = true
		case "PREFETCHT0", "PREFETCHT1":
			if _, ok := m.address(a[0]); !ok {
				panic("prefetch of " + a[0])
			}
		case "VXORPS", "VPXORD":
			if a[0] != a[1] {
				panic(in.op + " of two registers")
			}
			m.setFloats(a[2], [16]float32{}, 16, all)
		case "VBROADCASTSS":
			v := m.floats(a[0], 1, all)
			for l := range v {
				v[l] = v[0]
			}
			m.setFloats(a[1], v, width(a), all)
		case "VMOVUPS", "VMOVUPS.Z":
			keep := all
			if len(a) == 3 {
				keep = m.k[a[1][1]-'0']
			}
			m.setFloats(a[len(a)-1], m.floats(a[0], width(a), keep), width(a), keep)
		case "VMASKMOVPS":
			var keep uint16
			i, _, _ := vector(a[1])
			for l, v := range m.vec[i] {
				keep |= uint16(math.Float32bits(v)>>31) << l
			}
			m.setFloats(a[2], m.floats(a[0], width(a), keep), width(a), keep)
		case "VPTESTMD":
			v, w := m.floats(a[0], 16, all), m.floats(a[1], 16, all)
			var keep uint16
			for l := range v {
				if math.Float32bits(v[l])&math.Float32bits(w[l]) != 0 {
					keep |= 1 << l
				}
			}
			m.k[a[2][1]-'0'] = keep
		case "VMULPS", "VADDPS", "VFMADD231PS":
			lanes := width(a)
			x, y, z := m.floats(a[0], lanes, all), m.floats(a[1], lanes, all), m.floats(a[2], lanes, all)
			for l := range lanes {
				z[l] = m.arithmetic(in.op, x[l], y[l], z[l])
			}
			m.setFloats(a[2], z, lanes, all)
		case "MOVL":
			binary.LittleEndian.PutUint32(m.at(where(m.address(a[1])), 4), uint32(m.word(a[0], 4)))
		case "STMXCSR":
			binary.LittleEndian.PutUint32(m.at(where(m.address(a[0])), 4), m.control)
		case "LDMXCSR":
			m.control = binary.LittleEndian.Uint32(m.at(where(m.address(a[0])), 4))
		case "LONG":
			m.pairs(uint32(m.word(a[0], 8)), uint16(m.word(code[pc].args[0], 8)))
			pc++
		case "VZEROUPPER":
			clean = true
			continue
		case "RET":
			if !clean {
				panic("no VZEROUPPER before RET")
			}
			if m.control != masked {
				panic("the control word is not what it was")
			}
			return
		default:
			panic("unknown instruction " + in.op)
		}
		clean = clean && in.op[0] != 'V' && in.op != "LONG"
		if jump {
			pc = in.to
		}
	}
}

// masked is a control word of rounding to nearest without exceptions, flushed one where
// denormals count as 0 besides.
const masked, flushes = 0x1f80, 0x9fc0

// arithmetic is one lane of an instruction under the control word. Where denormals count
// as 0, factors have few bits.
func (m *machine) arithmetic(op string, x, y, z float32) float32 {
	switch m.control {
	case masked:
		switch op {
		case "VMULPS":
			return y * x
		case "VADDPS":
			return y + x
		}
		return portable.FMA(x, y, z)
	case flushes:
		switch op {
		case "VMULPS":
			return flushed(flushed(y) * flushed(x)) // one is 1
		case "VADDPS":
			return flushed(flushed(y) + flushed(x))
		}
		return maddFlushed(z, x, y)
	}
	panic(fmt.Sprintf("control word %#x", m.control))
}

// pairs decodes and executes VDPBF16PS of 512 bits, which stands in the text as bytes.
func (m *machine) pairs(first uint32, last uint16) {
	bits := func(at, n int) int {
		return int((uint64(first) | uint64(last)<<32) >> at & (1<<n - 1))
	}
	// 62, map 0F38, W0 and prefix F3, 512 bits without mask, opcode 52, registers.
	if bits(0, 8) != 0x62 || bits(8, 4) != 2 || bits(16, 3) != 6 || bits(23, 1) != 0 || bits(24, 3) != 0 || bits(28, 4) != 4 ||
		bits(32, 8) != 0x52 || bits(46, 2) != 3 {
		panic(fmt.Sprintf("bytes %08x %04x are no VDPBF16PS", first, last))
	}
	not := func(at int) int { return 1 - bits(at, 1) }
	dst := bits(43, 3) | not(15)<<3 | not(12)<<4
	one := ^bits(19, 4)&15 | not(27)<<4
	two := bits(40, 3) | not(13)<<3 | not(14)<<4
	for l := range m.vec[dst] {
		a1, a2 := halvesOfPair(m.vec[one][l])
		b1, b2 := halvesOfPair(m.vec[two][l])
		m.vec[dst][l] = maddFlushed(maddFlushed(m.vec[dst][l], a1, b1), a2, b2)
	}
}

// interpret runs a kernel on x as if by hardware.
func interpret(code []instruction, x *call) {
	var m machine
	block := make([]byte, unsafe.Sizeof(*x))
	put := func(offset uintptr, v uint64) { binary.LittleEndian.PutUint64(block[offset:], v) }
	words := func(x []float32) []byte {
		b := make([]byte, 4*len(x))
		for i, v := range x {
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
		}
		return b
	}
	put(unsafe.Offsetof(x.k), uint64(x.k))
	put(unsafe.Offsetof(x.tiles), uint64(x.tiles))
	put(unsafe.Offsetof(x.a), m.put(words(x.a)))
	put(unsafe.Offsetof(x.aRow), uint64(x.aRow))
	put(unsafe.Offsetof(x.aStep), uint64(x.aStep))
	put(unsafe.Offsetof(x.aTile), uint64(x.aTile))
	put(unsafe.Offsetof(x.b), m.put(words(x.b)))
	put(unsafe.Offsetof(x.bStep), uint64(x.bStep))
	put(unsafe.Offsetof(x.next), 1) // asking for memory needs no memory
	put(unsafe.Offsetof(x.nextStep), uint64(x.nextStep))
	put(unsafe.Offsetof(x.cRow), uint64(x.cRow))
	c, packed := words(x.c), words(x.packed)
	put(unsafe.Offsetof(x.c), m.put(c))
	if len(packed) > 0 {
		put(unsafe.Offsetof(x.packed), m.put(packed))
	}
	if x.mask != nil {
		masks := make([]byte, 4*48)
		for i := range 4 * x.width {
			masks[i] = 0xff
		}
		put(unsafe.Offsetof(x.mask), m.put(masks))
	}
	binary.LittleEndian.PutUint32(block[unsafe.Offsetof(x.alpha):], math.Float32bits(x.alpha))
	if x.add {
		block[unsafe.Offsetof(x.add)] = 1
	}
	if x.flush {
		block[unsafe.Offsetof(x.flush)] = 1
	}
	m.run(code, m.put(block))
	for i := range x.c {
		x.c[i] = math.Float32frombits(binary.LittleEndian.Uint32(c[4*i:]))
	}
	for i := range x.packed {
		x.packed[i] = math.Float32frombits(binary.LittleEndian.Uint32(packed[4*i:]))
	}
}

func TestKernelsInterpreted(t *testing.T) {
	code := parseAssembly(t, "kernels_amd64.s")
	rounds := 60
	if !patience.Long {
		rounds = 12
	}
	r := newRand(23)
	hardware := !flushesEarly()
	seen := 0
	for prefix, kr := range map[string]*kernel{"avx2x16x": avx2, "avx512x32x": avx512x32, "avx512x48x": avx512x48, "bf16x32x": bf16x32} {
		for _, rows := range kr.heights {
			name := fmt.Sprint("asm", strings.ToUpper(prefix[:1]), prefix[1:], rows)
			if code[name] == nil {
				t.Errorf("there is no %s", name)
				continue
			}
			seen++
			for i := range rounds {
				x, spec := newCall(r, kr.cols, rows), microTest
				switch {
				case kr == bf16x32:
					x, spec = pairCall(r, x), pairsGo
				case i%3 == 0:
					x, spec = roundedCall(r, x), microFlushedGo
				}
				got, want := x.clone(), x.clone()
				interpret(code[name], got)
				spec(kr.cols, rows, want)
				same := func(y *call) bool { return sameValues(got.c, y.c) && sameBits(got.packed, y.packed) }
				if !same(want) {
					t.Fatalf("%s, %v: other bits than specified", name, x)
				}
				if hardware && cpu.Has(kr.needs) {
					ran := x.clone()
					kr.multiply(rows, ran)
					if !same(ran) {
						t.Fatalf("%s, %v: the interpreter and the machine differ", name, x)
					}
				}
			}
		}
	}
	if seen != 29 {
		t.Errorf("%d kernels were looked at", seen)
	}
}
