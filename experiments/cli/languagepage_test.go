package cli_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/gradlab/gradlab/internal/program"
)

// The runs of docs/language.md run as they stand, for two updates, on texts that are made
// here.
func TestLanguagePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/language.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := strings.Repeat("to be, or not to be: that is the question\n", 1115394/42+1)[:1115394]
	files := map[string]string{"data/shakespeare/input.txt": text, "mine.txt": text[:9000]}
	for _, name := range []string{"vocab.json", "merges.txt"} {
		b, err := os.ReadFile("../../sgd/data/text/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		files["data/gpt2/"+name] = string(b)
	}
	for _, part := range []string{"train", "val"} {
		type row struct {
			Text string `parquet:"text"`
		}
		var b bytes.Buffer
		if err := parquet.Write(&b, []row{{text[:3000]}, {text[3000:9000]}}); err != nil {
			t.Fatal(err)
		}
		files["data/wikitext/"+part+"-00000-of-00001.parquet"] = b.String()
		bin := make([]byte, 1024, 5024) // a header of llm.c, and 2,000 tokens
		for i, word := range []uint32{20240520, 1, 2000} {
			binary.LittleEndian.PutUint32(bin[4*i:], word)
		}
		for i := range 2000 {
			bin = binary.LittleEndian.AppendUint16(bin, uint16(i%400))
		}
		files["data/fineweb10B/fineweb_"+part+"_000000.bin"] = string(bin)
	}
	for name, b := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(b), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ran := 0
	for _, line := range regexp.MustCompile("(?m)^gradlab run .*$").FindAllString(string(page), -1) {
		w := append(words(line), "steps=2", "eval_every=0", "test_limit=4", "--data-dir", filepath.Join(dir, "data"))
		w[0] = program.Gradlab
		out := program.StartLine(t, dir, nil, w...)
		out.Expect(0)
		if said := out.Out.String(); !strings.Contains(said, "last loss") {
			t.Errorf("%s says no loss:\n%s", line, said)
		}
		ran++
	}
	if ran < 4 {
		t.Errorf("%d runs on the page", ran)
	}
}
