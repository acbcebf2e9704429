package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/cnibake/cnibake/builder/plugins"
)

// lineHandler prints each log record as one plain line.
type lineHandler struct {
	w io.Writer
}

func (h lineHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

func (h lineHandler) Handle(_ context.Context, record slog.Record) error {
	prefix := ""
	if record.Level >= slog.LevelWarn {
		prefix = "warning: "
	}

	_, err := fmt.Fprintln(h.w, prefix+record.Message)

	return err
}

// WithAttrs and WithGroup change nothing: messages here carry everything in their text.
func (h lineHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h lineHandler) WithGroup(string) slog.Handler      { return h }

// terminal is where bars can be shown, if there is one.
func (a *app) terminal() (*os.File, bool) {
	file, ok := a.stderr.(*os.File)

	return file, ok && !a.quiet && term.IsTerminal(int(file.Fd()))
}

// progress shows transfers: a bar on a terminal, otherwise nothing beyond the log's lines.
func (a *app) progress() plugins.Progress {
	file, ok := a.terminal()
	if !ok {
		return func(string, int64) io.WriteCloser { return nopBar{} }
	}

	return func(what string, total int64) io.WriteCloser {
		return progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(file),
			progressbar.OptionSetDescription(path.Base(what)),
			progressbar.OptionShowBytes(true),
			progressbar.OptionShowTotalBytes(true),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
		)
	}
}

type nopBar struct{}

func (nopBar) Write(p []byte) (int, error) { return len(p), nil }
func (nopBar) Close() error                { return nil }

// writeJSON writes what -o json prints.
func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")

	return encoder.Encode(v)
}

// size formats a number of bytes for people.
func size(bytes int64) string {
	const unit = 1000

	switch {
	case bytes >= unit*unit:
		return fmt.Sprintf("%.1f MB", float64(bytes)/unit/unit)
	case bytes >= unit:
		return fmt.Sprintf("%.1f kB", float64(bytes)/unit)
	default:
		return fmt.Sprintf("%d B", bytes)
	}
}
