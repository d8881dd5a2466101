package elastic_test

import (
	"os"
	"testing"

	"github.com/gradlab/gradlab/internal/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }
