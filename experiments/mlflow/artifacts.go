package mlflow

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments"
)

// Files of a run's folder that say nothing once it is over, or go as tags; and the secret
// of its ranks, which a run that was killed leaves behind.
var passing = []string{"status.json", "lock", "token", experiments.AboutFile}

// upload copies the files of a run's folder to where the server keeps those of a run.
// Only servers that take artifacts over HTTP can be written to, as they do by default
// since MLflow 2.0 (mlflow-artifacts:/…); the others are told of by Note.
func (c *Client) upload(ctx context.Context, to info, folder string) error {
	if c.NoArtifacts || to.Artifacts == "" {
		return nil
	}
	at, err := url.Parse(to.Artifacts)
	if err != nil || at.Scheme != "mlflow-artifacts" {
		c.note("files were not copied: this server keeps them at %s, which it does not take over HTTP (mlflow server --serve-artifacts does); tag gradlab.folder says where they are", to.Artifacts)
		return nil
	}
	if base, err := url.Parse(c.URL); err != nil || at.Host != "" && at.Host != base.Host {
		c.note("files were not copied: another server, %s, keeps them", at.Host)
		return nil
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, f := range files {
		if !f.Type().IsRegular() || strings.HasPrefix(f.Name(), ".") || slices.Contains(passing, f.Name()) {
			continue
		}
		if err := c.put(ctx, path.Join(at.Path, f.Name()), filepath.Join(folder, f.Name())); err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	return nil
}

// put sends one file.
func (c *Client) put(ctx context.Context, to, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	where := strings.TrimSuffix(c.URL, "/") + "/api/2.0/mlflow-artifacts/artifacts" + (&url.URL{Path: path.Join("/", to)}).EscapedPath()
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, where, f)
	if err != nil {
		return err
	}
	r.ContentLength = info.Size()
	if r.ContentLength == 0 {
		r.Body = http.NoBody
	}
	kind := mime.TypeByExtension(filepath.Ext(file))
	if kind == "" {
		kind = "application/octet-stream"
	}
	r.Header.Set("Content-Type", kind)
	return c.send(r, 0, nil)
}

func (c *Client) note(format string, args ...any) {
	if c.Note != nil {
		c.Note(fmt.Sprintf(format, args...))
	}
}
