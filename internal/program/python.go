package program

import (
	"os/exec"
	"sync"
	"testing"
)

var pythons struct {
	sync.Mutex
	of map[string]string // by module; "" where nothing has it
}

// Python is an interpreter that has a module: python3 in the path, else Debian's, which
// has Debian's packages. Where neither has it the test is skipped, by the module's name.
func Python(t testing.TB, module string) string {
	t.Helper()
	pythons.Lock()
	defer pythons.Unlock()
	exe, known := pythons.of[module]
	if !known {
		for _, at := range []string{"python3", "/usr/bin/python3"} {
			// Looked for and not imported, which takes PyTorch two seconds.
			if exec.Command(at, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('"+module+"') is None)").Run() == nil {
				exe = at
				break
			}
		}
		if pythons.of == nil {
			pythons.of = map[string]string{}
		}
		pythons.of[module] = exe
	}
	if exe == "" {
		t.Skip("no python3 has module " + module)
	}
	return exe
}
