package stage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/cnibake/cnibake/builder/payload"
)

// Limits of a record, far above any real one. The size also bounds the memory that reading a damaged
// one takes, which is many times that.
const (
	maxRecordSize  = 256 << 10
	maxDirectories = 64
	maxEntries     = 4 * payload.MaxPlugins
)

// record is our memory of what we wrote where.
type record struct {
	SchemaVersion int `json:"schemaVersion"`
	// Directories holds, by absolute path, the names we wrote in each bin directory.
	Directories map[string]map[string]entry `json:"directories"`
}

// entry is what is known of one name. A change is Pending from before the rename that makes it
// until the run ends, so that a run which is killed leaves both what was and what was to be; the
// file itself then tells which of the two holds.
type entry struct {
	Done    *change `json:"done,omitempty"`
	Pending *change `json:"pending,omitempty"`
}

// change is one write of ours.
type change struct {
	// Origin is created, or replaced where something had the name before our first write.
	Origin origin `json:"origin"`
	// Digest is what we wrote.
	Digest string `json:"digest"`
	// Module is the upstream module of the payload it came from; empty for an unverified one.
	Module string `json:"module,omitempty"`
	// Before is what we replaced.
	Before *before `json:"before,omitempty"`
}

type origin string

const (
	created  origin = "created"
	replaced origin = "replaced"
)

// before is what had a name before us: a file, kept as a backup of its digest, or a symlink.
type before struct {
	Digest string `json:"digest,omitempty"`
	Link   string `json:"link,omitempty"`
	Mode   uint32 `json:"mode,omitempty"`
	UID    uint32 `json:"uid,omitempty"`
	GID    uint32 `json:"gid,omitempty"`
}

// holds returns the change of ours that a digest on disk belongs to, or nil when it is not ours.
func (e entry) holds(digest string) *change {
	for _, c := range []*change{e.Pending, e.Done} {
		if c != nil && digest != "" && c.Digest == digest {
			return c
		}
	}

	return nil
}

// matches reports whether a target is what was there before us.
func (b *before) matches(t target) bool {
	switch {
	case b == nil:
		return t.kind == absent
	case b.Link != "":
		return t.kind == symlink && t.link == b.Link
	default:
		return t.kind == regular && t.digest == b.Digest
	}
}

func (b *before) describe() string {
	if b.Link != "" {
		return "symlink:" + b.Link
	}

	return b.Digest
}

func newRecord() *record {
	return &record{SchemaVersion: 1, Directories: map[string]map[string]entry{}}
}

// parseRecord decodes and checks a record. What it accepts can be acted on without further checks.
func parseRecord(data []byte) (*record, error) {
	if len(data) > maxRecordSize {
		return nil, fmt.Errorf("record is larger than %d bytes", maxRecordSize)
	}

	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()

	var r record
	if err := decoder.Decode(&r); err != nil {
		return nil, fmt.Errorf("decoding record: %w", err)
	}

	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("record has more than one JSON value")
	}

	if err := r.validate(); err != nil {
		return nil, err
	}

	return &r, nil
}

func (r *record) encode() ([]byte, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}

	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, err
	}

	if len(data) >= maxRecordSize {
		return nil, fmt.Errorf("the record would be larger than %d bytes", maxRecordSize)
	}

	return append(data, '\n'), nil
}

func (r *record) validate() error {
	if r.SchemaVersion != 1 {
		return fmt.Errorf("record has schemaVersion %d, this program reads 1", r.SchemaVersion)
	}

	if r.Directories == nil || len(r.Directories) > maxDirectories {
		return fmt.Errorf("record lists %d directories, or no list at all", len(r.Directories))
	}

	for dir, entries := range r.Directories {
		if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir {
			return fmt.Errorf("record: %q is not a clean absolute path", dir)
		}

		if len(entries) > maxEntries {
			return fmt.Errorf("record: %s: %d names, more than %d", dir, len(entries), maxEntries)
		}

		for name, e := range entries {
			if err := e.validate(); err != nil || !payload.ValidName(name) {
				return fmt.Errorf("record: %s: entry %q is not valid: %w", dir, name, err)
			}
		}
	}

	return nil
}

func (e entry) validate() error {
	if e.Done == nil && e.Pending == nil {
		return errors.New("it says nothing")
	}

	for _, c := range []*change{e.Done, e.Pending} {
		if c != nil {
			if err := c.validate(); err != nil {
				return err
			}
		}
	}

	return nil
}

func (c *change) validate() error {
	switch {
	case c.Origin != created && c.Origin != replaced:
		return fmt.Errorf("origin %q", c.Origin)
	case (c.Origin == replaced) != (c.Before != nil):
		return fmt.Errorf("origin %s with the wrong account of what was before", c.Origin)
	case !payload.ValidDigest(c.Digest):
		return fmt.Errorf("digest %q", c.Digest)
	}

	if b := c.Before; b != nil {
		if (b.Link == "") == (b.Digest == "") || b.Digest != "" && !payload.ValidDigest(b.Digest) ||
			strings.ContainsRune(b.Link, 0) || b.Mode&^0o7777 != 0 {
			return errors.New("what was before is neither a file nor a symlink")
		}
	}

	return nil
}
