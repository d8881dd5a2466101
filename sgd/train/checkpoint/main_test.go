package checkpoint_test

import (
	"os"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
)

func TestMain(m *testing.M) { os.Exit(patience.Main(m)) }
