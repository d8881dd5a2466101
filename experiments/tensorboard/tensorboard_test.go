package tensorboard

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"
)

var at = time.Unix(1700000000, 250e6)

// crc32c is the checksum bit by bit, from its polynomial alone.
func crc32c(b []byte) uint32 {
	c := ^uint32(0)
	for _, x := range b {
		c ^= uint32(x)
		for range 8 {
			c = c>>1 ^ 0x82f63b78*(c&1)
		}
	}
	return ^c
}

func mask(c uint32) uint32 { return (c>>15 | c<<17) + 0xa282ead8 }

// records takes a file apart.
func records(t testing.TB, b []byte) (out [][]byte) {
	for len(b) > 0 {
		n := binary.LittleEndian.Uint64(b)
		if got := binary.LittleEndian.Uint32(b[8:]); got != mask(crc32c(b[:8])) {
			t.Fatalf("checksum of a length: %08x", got)
		}
		payload := b[12 : 12+n]
		if got := binary.LittleEndian.Uint32(b[12+n:]); got != mask(crc32c(payload)) {
			t.Fatalf("checksum of a payload: %08x", got)
		}
		out, b = append(out, payload), b[16+n:]
	}
	return out
}

func TestChecksum(t *testing.T) {
	if c := crc32c([]byte("123456789")); c != 0xe3069283 { // the check value of CRC-32/ISCSI
		t.Fatalf("%08x", c)
	}
}

// TestGolden pins the bytes of a file that TensorBoard is known to read.
func TestGolden(t *testing.T) {
	var b bytes.Buffer
	w, err := Open(&b, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(time.Unix(2, 0), 3, Scalar("a", 0.5)); err != nil {
		t.Fatal(err)
	}
	// The head of the first record is that of every event file: 24 bytes follow.
	const want = "1800000000000000" + "a37f4b22" + "09000000000000f03f" + "1a0d" + "627261696e2e4576656e743a32" + "86bf577a" +
		"1700000000000000" + "e7cef81e" + "090000000000000040" + "1003" + "2a0a" + "0a08" + "0a0161" + "150000003f" + "959aa0ce"
	if got := hex.EncodeToString(b.Bytes()); got != want {
		t.Errorf("got %s", got)
	}
}

func TestEveryKindOfValue(t *testing.T) {
	var b bytes.Buffer
	w, err := Open(&b, at)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		w.Write(at, 0, Begin("codec=raw", map[string]any{"lr": 0.1, "codec": "raw", "overlap": true, "unknown": []int{1}}, at)),
		w.Write(at, 0), // nothing
		w.Restart(at, 40),
		w.Write(at, 41, Scalar("train/loss", 2.5), Text("config", "*lr* 0.1")),
		w.Write(at, 50, Counts("staleness", []uint64{0, 3, 0, 1}), Counts("none", nil)),
		w.Write(at, 50, End(Success, at)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	d := newDecoder(t)
	var got []string
	for _, r := range records(t, b.Bytes()) {
		got = append(got, d.text("Event", r))
	}
	// The text format puts one blank or two between fields, as it pleases.
	one := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	const stamp = `wall_time:1.70000000025e+09`
	want := []string{
		stamp + ` file_version:"brain.Event:2"`,
		"", // looked into below
		stamp + ` step:40 session_log:{status:1}`,
		stamp + ` step:41 summary:{value:{tag:"train/loss" simple_value:2.5} value:{tag:"config" tensor:{dtype:7 tensor_shape:{dim:{size:1}} string_val:"*lr* 0.1"} metadata:{plugin_data:{plugin_name:"text"}}}}`,
		stamp + ` step:50 summary:{value:{tag:"staleness" histo:{min:1 max:3 num:4 sum:6 sum_squares:12 ` +
			`bucket_limit:-0.5 bucket_limit:0.5 bucket_limit:1.5 bucket_limit:2.5 bucket_limit:3.5 bucket:0 bucket:0 bucket:3 bucket:0 bucket:1}} ` +
			`value:{tag:"none" histo:{bucket_limit:-0.5 bucket:0}}}`,
		"",
	}
	if len(got) != len(want) {
		t.Fatalf("%d records", len(got))
	}
	for i := range want {
		if want[i] != "" && one(got[i]) != want[i] {
			t.Errorf("record %d:\n got %s\nwant %s", i, one(got[i]), want[i])
		}
	}
	if c := one(d.text("HParamsPluginData", d.plugin(records(t, b.Bytes())[1]))); c !=
		`session_start_info:{hparams:{key:"codec" value:{string_value:"raw"}} hparams:{key:"lr" value:{number_value:0.1}} `+
			`hparams:{key:"overlap" value:{bool_value:true}} group_name:"codec=raw" start_time_secs:1.70000000025e+09}` {
		t.Error(c)
	}
	if c := one(d.text("HParamsPluginData", d.plugin(records(t, b.Bytes())[5]))); c != `session_end_info:{status:1 end_time_secs:1.70000000025e+09}` {
		t.Error(c)
	}
}

// plugin is what the first value of an event hands to its plugin.
func (d decoder) plugin(event []byte) []byte {
	m := dynamicpb.NewMessage(d.file.Messages().ByName("Event"))
	if err := proto.Unmarshal(event, m); err != nil {
		d.t.Fatal(err)
	}
	field := func(m *dynamicpb.Message, name string) *dynamicpb.Message {
		return m.Get(m.Descriptor().Fields().ByTextName(name)).Message().Interface().(*dynamicpb.Message)
	}
	values := field(m, "summary")
	list := values.Get(values.Descriptor().Fields().ByTextName("value")).List()
	data := field(field(list.Get(0).Message().Interface().(*dynamicpb.Message), "metadata"), "plugin_data")
	return data.Get(data.Descriptor().Fields().ByTextName("content")).Bytes()
}

func TestHistogramsCountEverything(t *testing.T) {
	d := newDecoder(t)
	rapid.Check(t, func(rt *rapid.T) {
		counts := rapid.SliceOfN(rapid.Uint64Range(0, 1e6), 0, 40).Draw(rt, "counts")
		var b bytes.Buffer
		w, _ := Open(&b, at)
		_ = w.Write(at, 1, Counts("h", counts))
		event := records(t, b.Bytes())[1]
		m := dynamicpb.NewMessage(d.file.Messages().ByName("Event"))
		if err := proto.Unmarshal(event, m); err != nil {
			rt.Fatal(err)
		}
		sum := m.Get(m.Descriptor().Fields().ByName("summary")).Message()
		h := sum.Get(sum.Descriptor().Fields().ByName("value")).List().Get(0).Message()
		h = h.Get(h.Descriptor().Fields().ByName("histo")).Message()
		get := func(name string) float64 { return h.Get(h.Descriptor().Fields().ByTextName(name)).Float() }
		limits := h.Get(h.Descriptor().Fields().ByName("bucket_limit")).List()
		buckets := h.Get(h.Descriptor().Fields().ByName("bucket")).List()
		if limits.Len() != buckets.Len() {
			rt.Fatal("limits and buckets differ in number")
		}
		total, before := 0.0, math.Inf(-1)
		for i := range limits.Len() {
			total += buckets.Get(i).Float()
			if l := limits.Get(i).Float(); l <= before {
				rt.Fatal("limits do not grow")
			} else {
				before = l
			}
		}
		if total != get("num") || get("min") > get("max") || get("sum")*get("sum") > get("num")*get("sum_squares")*(1+1e-12) {
			rt.Fatal("the histogram contradicts itself")
		}
	})
}

func TestFileName(t *testing.T) {
	if got := FileName(at, "host", 7, 0); got != "events.out.tfevents.1700000000.host.7.0" {
		t.Error(got)
	}
	for _, when := range []time.Time{at, time.Unix(7, 0)} {
		if back, ok := MadeAt(FileName(when, "a.b", 1, 2)); !ok || back.Unix() != when.Unix() {
			t.Errorf("%v of %v", back, when)
		}
	}
	for _, name := range []string{"", "result.json", "events.out.tfevents.", "events.out.tfevents.x.y"} {
		if when, ok := MadeAt(name); ok {
			t.Errorf("%q was made at %v", name, when)
		}
	}
}
