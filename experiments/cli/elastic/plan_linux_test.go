package elastic_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/internal/program"
)

// Workers of a run that nobody launched leave and join by plan: it has the bits of the same
// plan on one process. Faults at instants are refused there, as none of its processes can
// carry them out.
func TestPlanByHand(t *testing.T) {
	t.Parallel()
	keys := []string{"mode=reduce", "workers=3", "steps=60", "faults=join(w2,before=40)+leave(w2,before=10)"}
	start, out := byHand(t, keys...)
	lead, others := start(0), []*program.Program{start(1), start(2)}
	lead.Expect(0)
	for _, p := range others {
		p.Expect(0)
	}
	want := program.Finish(t, 0, append([]string{"run", program.Recipe(t, program.Long), "codec=raw", "elastic=on", "net=local", "checkpoint_every=20", "--json", "--quiet", "--out", t.TempDir()}, keys...)...).Result()
	folders, err := filepath.Glob(filepath.Join(out, "*", "*", "result.json"))
	if err != nil || len(folders) != 1 {
		t.Fatalf("results %v, %v", folders, err)
	}
	var got experiments.Result
	if program.ReadJSON(t, folders[0], &got); got.ParamsSHA256 != want.SHA256 || len(got.Members) != 3 {
		t.Errorf("it ends with %s, on one process with %s; members %+v", got.ParamsSHA256, want.SHA256, got.Members)
	}
	program.NoneLeft(t, out)

	start, _ = byHand(t, append(keys[:3:3], "faults=leave(w2,before=10)+kill(w1,at=1s)")...)
	if lead := start(0); lead.Wait(program.Decided) != 2 || !strings.Contains(lead.Err.String(), `key "faults": this process has not started the others`) {
		t.Error(lead.Says())
	}
}
