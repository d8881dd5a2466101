package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// download fetches one file to dst by way of dst.part, which a later attempt
// continues with a Range request. Only a file that passes its check is renamed
// to dst.
type download struct {
	remote
	urls []string
	dst  string
	set  string
	tell func(Progress)
	timing
}

// timing bounds every wait, so that a download fails rather than hangs.
type timing struct {
	connect time.Duration // to reach a host and to greet it
	stall   time.Duration // between two reads
	pause   time.Duration // before trying the same address again
}

var defaultTiming = timing{connect: 15 * time.Second, stall: 30 * time.Second, pause: time.Second}

// errMismatch is a complete file with the wrong content.
var errMismatch = errors.New("the content does not match the published checksum")

// run tries the addresses in order: each again while it makes progress, and
// from the start once if a resumed file fails its check.
func (d *download) run(ctx context.Context) error {
	dialer := &net.Dialer{Timeout: d.connect}
	client := &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext,
		TLSHandshakeTimeout: d.connect, ResponseHeaderTimeout: d.stall, DisableCompression: true,
	}}
	defer client.CloseIdleConnections()
	var errs []error
	for _, url := range d.urls {
		for try := 0; ; try++ {
			before := d.have()
			err := d.once(ctx, client, url)
			if err == nil {
				return nil
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			again := d.have() > before
			if errors.Is(err, errMismatch) {
				again = before > 0
				os.Remove(d.part())
			}
			if !again || try == 10 {
				errs = append(errs, fmt.Errorf("%s: %w", url, err))
				break
			}
			select {
			case <-ctx.Done():
			case <-time.After(d.pause):
			}
		}
	}
	return errors.Join(errs...)
}

// partSuffix is what a file is called that has not come whole. It counts for
// nothing where sets are looked for and read.
const partSuffix = ".part"

func (d *download) part() string { return d.dst + partSuffix }

// have is the number of bytes there already.
func (d *download) have() int64 {
	st, err := os.Stat(d.part())
	if err != nil {
		return 0
	}
	return st.Size()
}

// once makes one request for what is missing, appends the answer and, when
// complete, checks and renames.
func (d *download) once(parent context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	off := d.have()
	if d.size == 0 || off < d.size {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if off > 0 {
			req.Header.Set("Range", fmt.Sprintf("bytes=%d-", off))
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		switch resp.StatusCode {
		case http.StatusOK:
			off = 0
		case http.StatusPartialContent:
			var at int64
			if _, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-", &at); err != nil || at != off {
				return fmt.Errorf("asked for bytes from %d, got %q", off, resp.Header.Get("Content-Range"))
			}
		case http.StatusRequestedRangeNotSatisfiable:
			resp.ContentLength = 0 // all there, or too much: the check will tell
		default:
			return fmt.Errorf("the server says %s", resp.Status)
		}
		if resp.StatusCode != http.StatusRequestedRangeNotSatisfiable {
			if err := d.append(ctx, cancel, resp, off); err != nil {
				return err
			}
		}
	}
	switch d.verify(d.part()) {
	case Verified, Present:
		return os.Rename(d.part(), d.dst)
	}
	return errMismatch
}

// append writes the answer's body to the part file from off on.
func (d *download) append(ctx context.Context, cancel context.CancelCauseFunc, resp *http.Response, off int64) (err error) {
	total := d.size
	if resp.ContentLength >= 0 {
		if total = off + resp.ContentLength; d.size > 0 && total != d.size {
			return fmt.Errorf("the server offers %d bytes, the file has %d", total, d.size)
		}
	} else if total == 0 {
		total = -1
	}
	out, err := os.OpenFile(d.part(), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if e := out.Close(); err == nil {
			err = e
		}
	}()
	if err := out.Truncate(off); err != nil {
		return err
	}
	if _, err := out.Seek(off, io.SeekStart); err != nil {
		return err
	}
	stalled := time.AfterFunc(d.stall, func() { cancel(fmt.Errorf("nothing arrived for %v", d.stall)) })
	defer stalled.Stop()
	limit := int64(maxBlob)
	if d.size > 0 {
		limit = d.size
	}
	buf := make([]byte, 1<<16)
	var told time.Time
	for done := off; ; {
		n, err := resp.Body.Read(buf)
		stalled.Reset(d.stall)
		if done += int64(n); done > limit {
			return fmt.Errorf("more than %d bytes", limit)
		}
		if _, werr := out.Write(buf[:n]); werr != nil {
			return werr
		}
		if d.tell != nil && (err != nil || time.Since(told) > 100*time.Millisecond) {
			d.tell(Progress{Set: d.set, File: d.name, Done: done, Total: total})
			told = time.Now()
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		}
	}
}
