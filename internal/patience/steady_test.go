package patience

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// What fails while the machine runs, fails; what fails as it stood still is tried again.
func TestSteady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, failed := 0, errors.New("failed")
		try := func() error { tries++; time.Sleep(time.Second); return failed }
		if err := Steady(10*time.Second, try); err != failed || tries != 1 {
			t.Errorf("%d tries, %v", tries, err)
		}
		tries = 0
		if err := Steady(0, try); !errors.Is(err, failed) || err == failed || tries != 3 {
			t.Errorf("%d tries, %v", tries, err)
		}
	})
}
