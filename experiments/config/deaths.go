package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gradlab/gradlab/comm/sim"
)

// deaths lists how many workers of a virtual cluster are killed, and when: the
// last ones first, as device.slow counts them.
type deaths []struct {
	count int
	at    time.Duration
}

// parseDeaths reads "5@2s" (five workers, two seconds into the run),
// "1@500ms+2@1s" or "none". Times must rise.
func parseDeaths(text string) (deaths, error) {
	if text == "none" {
		return nil, nil
	}
	var d deaths
	for _, part := range strings.Split(text, "+") {
		n, when, ok := strings.Cut(strings.TrimSpace(part), "@")
		count, err1 := strconv.Atoi(n)
		at, err2 := time.ParseDuration(when)
		if !ok || err1 != nil || err2 != nil || count < 1 || at < 0 || (len(d) > 0 && at <= d[len(d)-1].at) {
			return nil, fmt.Errorf("want none, or how many workers are killed when, in order of time, such as 5@2s or 1@500ms+2@1s, not %q", text)
		}
		d = append(d, struct {
			count int
			at    time.Duration
		}{count, at})
	}
	return d, nil
}

// String is the text parseDeaths reads.
func (d deaths) String() string {
	if len(d) == 0 {
		return "none"
	}
	var parts []string
	for _, e := range d {
		parts = append(parts, fmt.Sprintf("%d@%v", e.count, e.at))
	}
	return strings.Join(parts, "+")
}

// of says which of the ranks 0 … workers−1 die when.
func (d deaths) of(workers int) (out []sim.Death, err error) {
	last := workers
	for _, e := range d {
		if e.count > last {
			return nil, fmt.Errorf("%s kills more than the %d workers there are", d, workers)
		}
		for range e.count {
			last--
			out = append(out, sim.Death{Rank: last, At: e.at})
		}
	}
	return out, nil
}

// checkDeaths refuses deaths of workers that there are not, or on a real clock.
func (c *Config) checkDeaths() (errs []error) {
	d, err := parseDeaths(c.DeviceDie)
	if err != nil || len(d) == 0 {
		return nil // an error of parsing is told elsewhere
	}
	if _, err := d.of(c.Workers); err != nil {
		errs = append(errs, fmt.Errorf("key \"device.die\": %w", err))
	}
	if c.Net != "sim" {
		errs = append(errs, fmt.Errorf("key \"device.die\": on net=%s workers die for real, or not at all; use net=sim", c.Net))
	}
	return errs
}

// deaths are those of key device.die.
func (c Config) deaths() []sim.Death {
	d, _ := parseDeaths(c.DeviceDie) // it was checked
	killed, _ := d.of(c.Workers)
	return killed
}
