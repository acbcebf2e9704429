package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	recordName  = "record.json"
	backupsName = "backups"
)

// store is the state directory: the record, and the backups of what was replaced by digest. Its own
// lock is held from reading the record to writing it, so that installers of several bin directories
// can share it.
type store struct {
	dir *directory
	// key is the bin directory's name in the record.
	key    string
	record *record
	// text is the record as it was read.
	text   []byte
	locked bool
	// waited says that the lock could not be had: whoever hangs with it is not waited for twice.
	waited bool
}

// damagedError says that there is a state directory, whose record cannot be used.
type damagedError struct {
	err error
}

func (e *damagedError) Error() string { return sentence(e.err) }

// openStore opens a state directory. An error says why there is none to work with; it is a
// damagedError where there is one that may still hold what must not be lost.
func (s *system) openStore(path string, bin *directory) (*store, error) {
	if path == "" {
		return nil, errors.New("no state directory is named")
	}

	dir, err := s.openDirectory(path)
	if err != nil {
		return nil, err
	}

	st := &store{dir: dir, key: recordKey(bin.path)}

	if mine, err := dir.stat(); err == nil && isAt(bin.path, mine) {
		dir.close()

		return nil, fmt.Errorf("%s is the bin directory itself, where nothing but plugins belongs: name another with --state-dir", path)
	}

	if err := st.load(); err != nil {
		dir.close()

		if !unusable(err) {
			err = &damagedError{err}
		}

		return nil, err
	}

	return st, nil
}

func (s *store) close() {
	s.dir.close()
}

// beginAnew names the backups too: a new record knows nothing of them, and would have them removed.
const beginAnew = "move it and %s away to begin a new record"

// load reads the record; a missing one is an empty one.
func (s *store) load() error {
	f, st, err := s.dir.open(recordName)
	if errors.Is(err, unix.ENOENT) {
		s.record, s.text = newRecord(), nil

		return nil
	} else if _, ok := errors.AsType[*notRegularError](err); ok {
		return fmt.Errorf("%w; "+beginAnew, err, s.dir.join(backupsName))
	} else if err != nil {
		return err
	}
	defer f.close()

	s.text, err = io.ReadAll(io.NewSectionReader(f, 0, min(st.Size, maxRecordSize+1)))
	if err != nil {
		return err
	}

	if s.record, err = parseRecord(s.text); err != nil {
		return fmt.Errorf("%s: %w; "+beginAnew, s.dir.join(recordName), err, s.dir.join(backupsName))
	}

	return nil
}

// entries returns what the record says of the bin directory; it can be written to.
func (s *store) entries() map[string]entry {
	if s.record.Directories[s.key] == nil {
		s.record.Directories[s.key] = map[string]entry{}
	}

	return s.record.Directories[s.key]
}

func (s *store) unsettled() bool {
	for _, e := range s.record.Directories[s.key] {
		if e.Pending != nil {
			return true
		}
	}

	return false
}

// begin locks the store and reads the record anew.
func (s *store) begin(ctx context.Context, wait time.Duration) (note string, err error) {
	if s.waited {
		wait = 0
	}

	if note, err = s.dir.lock(ctx, wait); err != nil {
		return "", err
	}

	s.locked = note == ""

	if s.waited {
		note = "" // said before
	}

	s.waited = !s.locked

	if litter, err := s.dir.litter(); err == nil && s.locked {
		s.dir.sweep(litter)
	}

	return note, s.load()
}

func (s *store) end() {
	s.dir.unlock()
}

// finish writes the record and removes what it does not need any more.
func (s *store) finish() error {
	if len(s.entries()) == 0 {
		delete(s.record.Directories, s.key)
	}

	if len(s.record.Directories) == 0 {
		return s.clear()
	}

	// What was recorded before is as true as this, so a power cut may lose it.
	if err := s.save(false); err != nil {
		return err
	}

	return s.forget()
}

// save writes the record, durably before it returns where what follows relies on it.
func (s *store) save(durable bool) error {
	data, err := s.record.encode()
	if err != nil || bytes.Equal(data, s.text) {
		return err
	}

	tmp := temporaryName()

	f, err := s.dir.create(tmp)
	if err != nil {
		return relabel(err, s.dir.join(recordName))
	}

	f.path = s.dir.join(recordName)

	if _, err = f.Write(data); err == nil {
		err = f.sync()
	}

	if e := f.close(); err == nil {
		err = e
	}

	if err == nil {
		err = s.dir.rename(tmp, recordName)
	}

	if err != nil {
		s.dir.unlink(tmp)

		return err
	}

	if durable {
		return s.dir.sync()
	}

	return nil
}

// reconcile settles what earlier runs left pending: the file on disk tells whether its rename
// happened.
func (s *store) reconcile(ctx context.Context, bin *directory) error {
	entries := s.entries()

	for _, name := range slices.Sorted(maps.Keys(entries)) {
		e := entries[name]
		if e.Pending == nil {
			continue
		}

		t, err := bin.look(ctx, name)
		if ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			continue // a later run can tell
		}

		if t.kind == regular && t.digest == e.Pending.Digest {
			e.Done = e.Pending
		}

		if e.Pending = nil; e.Done == nil {
			delete(entries, name)
		} else {
			entries[name] = e
		}
	}

	return nil
}

// settle notes what became of a change: made, or not.
func (s *store) settle(name string, c *change, made bool) {
	entries := s.entries()

	e := entries[name]
	if made {
		e.Done = c
	}

	if e.Pending = nil; e.Done == nil {
		delete(entries, name)
	} else {
		entries[name] = e
	}
}

// clear removes the record and the backups when there is nothing left to remember.
func (s *store) clear() error {
	if s.text != nil {
		if err := s.dir.unlink(recordName); err != nil {
			return err
		}
	}

	if err := s.forget(); err != nil {
		return err
	}

	// Whatever else lies in there keeps the directory, which is then not ours to remove.
	_ = s.dir.sys.call("rmdir", s.dir.join(backupsName), func() error {
		return unix.Unlinkat(s.dir.fd, backupsName, unix.AT_REMOVEDIR)
	})

	return nil
}

// recordKey is the name a bin directory has in the record.
func recordKey(dest string) string {
	abs, err := filepath.Abs(dest)
	if err != nil {
		return filepath.Clean(dest)
	}

	return abs
}
