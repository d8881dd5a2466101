package cli

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/registry"
)

// gradlab run reads each text once, from the command line and the recipe to the job: the codec's
// and that of every other key.
func TestRunReadsEachTextOnce(t *testing.T) {
	patience.Alone(t)
	read := map[string]int{}
	defer registry.Watch(func(kind, text string) { read[fmt.Sprintf("%s %s", kind, text)]++ })()
	args := []string{"run", "quickstart", "codec=feedback(topk(keep=0.0371))", "steps=5", "device.codec=free", "--quiet", "--out", t.TempDir()}
	if code := Main(args, io.Discard, io.Discard); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	if read["codec feedback(topk(keep=0.0371))"] != 1 || len(read) < 20 {
		t.Errorf("the codec was read %d times, and %d texts in all", read["codec feedback(topk(keep=0.0371))"], len(read))
	}
	for text, n := range read {
		// Sheets set the law of steps as they are laid on, each by its own text.
		if n > 1 && !strings.HasPrefix(text, "law ") || n > 9 {
			t.Errorf("read %d times: %s", n, text)
		}
	}
}
