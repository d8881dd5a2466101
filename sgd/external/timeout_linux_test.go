package external_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/program"
)

// A stand-in for PyTorch says which timeout the hook's group is made with: that of the
// default group, wherever the version of PyTorch keeps it.
const groupOfTheHook = `
import datetime, sys, types
from unittest.mock import MagicMock
torch = MagicMock()
sys.modules["torch"], sys.modules["torch.distributed"] = torch, torch.distributed
sys.modules["numpy"] = sys.modules["gradlab.cuda"] = sys.modules["gradlab.device_hook"] = sys.modules["gradlab.library"] = MagicMock()
import gradlab.state
dist = torch.distributed
class Made(Exception): pass
def new_group(*args, **kw): raise Made(kw)
dist.new_group = new_group
five = types.SimpleNamespace(options=types.SimpleNamespace(_timeout=datetime.timedelta(minutes=5)))
def refuse(device): raise RuntimeError("no backend for " + str(device))
class Silent:
    _get_backend = staticmethod(refuse)
class Older(Silent):
    options = five.options
class Newer:
    _get_backend = staticmethod(lambda device: five)
for group in Older, Newer, Silent:
    dist.distributed_c10d._get_default_group = lambda: group
    try:
        gradlab.state.State("raw")
    except Made as m:
        print(group.__name__, m.args[0])
`

func TestHookHasTheUsersTimeout(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(program.Python(t, "unittest"), "-c", groupOfTheHook)
	cmd.Env = append(cmd.Environ(), "PYTHONPATH=python", "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	want := "Older {'timeout': datetime.timedelta(seconds=300)}\nNewer {'timeout': datetime.timedelta(seconds=300)}\nSilent {}\n"
	if err != nil || strings.ReplaceAll(string(out), "\r", "") != want {
		t.Errorf("%v:\n%s\nwant\n%s", err, out, want)
	}
}
